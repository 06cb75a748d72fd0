// The controls: what they show of the state, and what they change in it.
;(() => {
  const {element, index} = explorer
  const at = (id) => document.getElementById(id)
  const change = (what) => explorer.change(what)

  const groupOf = (cell) => {
    const place = index.place.get(cell)
    let [low, high] = [0, index.offsets.length - 1]
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (index.offsets[middle] <= place) low = middle
      else high = middle
    }
    return low
  }
  const groupsOf = (label) => index.labels.flatMap((one, group) => one === label ? [group] : [])
  const nameOf = (cell) => {
    const group = groupOf(cell)
    const amount = index.amounts[index.place.get(cell)]
    const parts = [index.fixed[group], Number.isNaN(amount) ? "" : `${index.short(group)} ${explorer.plain(amount)}`].filter(Boolean)
    return `${index.labels[group]}${parts.length ? ` (${parts.join(", ")})` : ""}`
  }

  function options(select, texts, chosen) {
    select.replaceChildren(...texts.map(([value, text]) => element("option", {value}, text)))
    select.value = String(chosen)
  }

  const MOST_OPTIONS = explorer.MOST_OPTIONS = 200
  function fillLabels() {
    const chosen = index.labels[groupOf(explorer.state.cell)]
    const wanted = at("filter").value.trim().toLowerCase()
    const matching = index.distinct.filter((label) => label.toLowerCase().includes(wanted))
    const listed = matching.slice(0, MOST_OPTIONS)
    if (!listed.includes(chosen)) listed.unshift(chosen)
    options(at("label"), listed.map((label) => [label, label]), chosen)
    at("filter-told").textContent = matching.length > MOST_OPTIONS ? `${MOST_OPTIONS} of ${matching.length} are listed` : ""
  }

  function fillGroups() {
    const group = groupOf(explorer.state.cell)
    const all = groupsOf(index.labels[group])
    at("group-row").hidden = all.length < 2
    const near = Math.max(0, Math.min(all.indexOf(group) - MOST_OPTIONS, all.length - 2 * MOST_OPTIONS))
    options(at("group"), all.slice(near, near + 2 * MOST_OPTIONS).map((one) => [one, index.fixed[one]]), group)
  }

  function showControls() {
    const group = groupOf(explorer.state.cell)
    fillLabels()
    fillGroups()
    const [start, stop] = [index.offsets[group], index.offsets[group + 1]]
    const place = index.place.get(explorer.state.cell)
    at("amount-row").hidden = stop - start < 2
    at("amount-label").textContent = index.what[group] || "Noise"
    at("amount").value = explorer.plain(index.amounts[place])
    at("amount-range").max = stop - start - 1
    at("amount-range").value = place - start
    at("amount-range").setAttribute("aria-valuetext", nameOf(explorer.state.cell))
    at("amount-told").textContent = `setting ${place - start + 1} of ${stop - start}, by increasing noise`
    at("rounds").value = index.rounds[explorer.state.r]
    slider("rounds", index.rounds.length, explorer.state.r, index.rounds[explorer.state.r])
    const values = explorer.state.axis === "y" ? index.exponential : index.epsilon
    at("axis").value = explorer.state.axis
    at("epsilon-label").textContent = explorer.state.axis === "y" ? "e^ε" : "ε, in nats"
    at("epsilon").value = String(values[explorer.state.e])
    slider("epsilon", index.epsilon.length, explorer.state.e, `ε = ${index.epsilon[explorer.state.e]}`)
    at("epsilon-told").textContent = `ε = ${explorer.plain(index.epsilon[explorer.state.e])}, e^ε = ${explorer.plain(index.exponential[explorer.state.e])}; ${index.epsilon.length} tabulated`
    at("rounds-told").textContent = `${index.rounds.length} tabulated`
    at("delta").value = explorer.small(explorer.state.delta)
    at("delta-range").value = Math.log10(explorer.state.delta)
    at("delta-range").setAttribute("aria-valuetext", `δ = ${explorer.small(explorer.state.delta)}`)
    at("delta-told").textContent = ""
    for (const id of ["amount-told", "rounds-told", "epsilon-told", "delta-told"]) at(id).classList.remove("wrong")
    const full = explorer.state.compared.length >= explorer.MOST_COMPARED
    at("add").disabled = full || explorer.state.compared.includes(explorer.state.cell)
    at("add").textContent = full ? `At most ${explorer.MOST_COMPARED} are compared` : "Add to comparison"
  }

  function slider(id, count, value, text) {
    const range = at(`${id}-range`)
    range.max = count - 1
    range.value = value
    range.disabled = count < 2
    range.setAttribute("aria-valuetext", text)
  }

  function wrong(id, text) {
    at(`${id}-told`).textContent = text
    at(`${id}-told`).classList.add("wrong")
  }

  // A value that is not tabulated is told with its neighbours, and changes nothing.
  function typed(id, values, wanted, apply, what) {
    const found = explorer.found(values, wanted)
    if (found.index >= 0) return apply(found.index)
    const near = found.near.map((one) => String(values[one])).join(" and ")
    wrong(id, Number.isNaN(wanted) ? "Expected a number." : `${what} is not tabulated: ${near} ${found.near.length > 1 ? "are" : "is"} next to it.`)
  }

  explorer.listenToControls = () => {
    const on = (id, event, action) => at(id).addEventListener(event, action)
    on("controls", "submit", (event) => event.preventDefault())
    on("filter", "input", fillLabels)
    on("label", "change", () => {
      const [group] = groupsOf(at("label").value)
      change({cell: index.cells[index.offsets[group]]})
    })
    on("group", "change", () => change({cell: index.cells[index.offsets[Number(at("group").value)]]}))
    on("amount-range", "input", () => change({cell: index.cells[index.offsets[groupOf(explorer.state.cell)] + Number(at("amount-range").value)]}))
    on("amount", "change", () => {
      const group = groupOf(explorer.state.cell)
      const start = index.offsets[group]
      const amounts = Array.from(index.amounts.subarray(start, index.offsets[group + 1]))
      const wanted = at("amount").value === "" ? NaN : Number(at("amount").value)
      // Ten digits of a number will do to find it; the field then shows all of them.
      const same = amounts.indexOf(wanted) >= 0 ? amounts.indexOf(wanted)
        : amounts.findIndex((amount) => amount.toPrecision(10) === wanted.toPrecision(10))
      if (same >= 0) return change({cell: index.cells[start + same]})
      typed("amount", amounts, wanted, (found) => change({cell: index.cells[start + found]}), `${wanted}`)
    })
    on("rounds-range", "input", () => change({r: Number(at("rounds-range").value)}))
    on("rounds", "change", () => {
      const text = at("rounds").value.trim().replace(/[,_ ]/g, "")
      const same = index.rounds.indexOf(text)
      if (same >= 0) return change({r: same})
      typed("rounds", index.rounds.map(Number), /^[0-9]+$/.test(text) ? Number(text) : NaN, (r) => change({r}), `r = ${text}`)
    })
    on("epsilon-range", "input", () => change({e: Number(at("epsilon-range").value)}))
    on("epsilon", "change", () => {
      const values = Array.from(explorer.state.axis === "y" ? index.exponential : index.epsilon)
      const wanted = at("epsilon").value === "" ? NaN : Number(at("epsilon").value)
      typed("epsilon", values, wanted, (e) => change({e}), `${explorer.state.axis === "y" ? "e^ε" : "ε"} = ${wanted}`)
    })
    on("axis", "change", () => change({axis: at("axis").value}))
    on("delta", "change", () => {
      const delta = at("delta").value === "" ? NaN : Number(at("delta").value)
      if (delta > 0 && delta < 1) return change({delta})
      wrong("delta", "Expected a number above 0 and below 1.")
    })
    on("delta-range", "input", () => change({delta: Number((10 ** Number(at("delta-range").value)).toPrecision(2))}))
    on("add", "click", () => change({compared: [...explorer.state.compared, explorer.state.cell]}))
  }

  Object.assign(explorer, {groupOf, nameOf, showControls})
})()
