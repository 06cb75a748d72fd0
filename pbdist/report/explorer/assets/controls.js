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

  // Off the grid: the numbers in the fields that are not tabulated, by field; null for what is no such number at all.
  const off = {}
  // Whether a field has changed and is not looked up yet.
  let editing = false

  function showTargets() {
    const {r, e, delta} = explorer.state
    const texts = index.targets.map(([r, e, delta]) => `r = ${explorer.grouped(index.rounds[r])}, ε = ${explorer.plain(index.epsilon[e])}, δ ≤ ${explorer.small(delta)}`)
    at("target-row").hidden = !texts.length
    const chosen = index.targets.findIndex((one) => one[0] === r && one[1] === e && one[2] === delta)
    options(at("target"), [...(chosen < 0 ? [[-1, "another target"]] : []), ...texts.map((text, place) => [place, text])], chosen)
  }

  function showControls() {
    const {cell, r, e, delta, axis, compared} = explorer.state
    const group = groupOf(cell)
    fillLabels()
    fillGroups()
    showTargets()
    const [start, stop] = [index.offsets[group], index.offsets[group + 1]]
    const place = index.place.get(cell)
    at("amount-row").hidden = stop - start < 2
    at("amount-label").textContent = index.what[group] || "Noise"
    field("amount", explorer.plain(index.amounts[place]), `setting ${place - start + 1} of ${stop - start}, by increasing noise`)
    slider("amount", stop - start, place - start, nameOf(cell))
    field("rounds", index.rounds[r], `${index.rounds.length} tabulated`)
    slider("rounds", index.rounds.length, r, index.rounds[r])
    at("axis").value = axis
    at("epsilon-label").textContent = axis === "y" ? "e^ε" : "ε, in nats"
    field("epsilon", String((axis === "y" ? index.exponential : index.epsilon)[e]),
      `ε = ${explorer.plain(index.epsilon[e])}, e^ε = ${explorer.plain(index.exponential[e])}; ${index.epsilon.length} tabulated`)
    slider("epsilon", index.epsilon.length, e, `ε = ${index.epsilon[e]}`)
    field("delta", explorer.small(delta), "")
    at("delta-range").value = Math.log10(delta)
    at("delta-range").setAttribute("aria-valuetext", `δ = ${explorer.small(delta)}`)
    const full = compared.length >= explorer.MOST_COMPARED
    at("add").disabled = full || compared.includes(cell)
    at("add").textContent = full ? `At most ${explorer.MOST_COMPARED} are compared` : "Add to comparison"
  }

  // A field keeps what is typed into it and is off the grid.
  function field(id, value, hint) {
    if (id in off) return
    at(id).value = value
    at(`${id}-told`).textContent = hint
    at(`${id}-told`).classList.remove("wrong")
  }

  function slider(id, count, value, text) {
    const range = at(`${id}-range`)
    range.max = count - 1
    range.value = value
    range.disabled = count < 2
    range.setAttribute("aria-valuetext", text)
  }

  // Looks up what is typed: a value that is not tabulated is named with its neighbours.
  function typed(id, values, wanted, least, apply, what) {
    const number = Number.isFinite(wanted) && wanted >= least
    const found = number ? explorer.found(values, wanted) : {index: -1}
    if (found.index >= 0) return apply(found.index)
    const near = (found.near ?? []).map((one) => String(values[one])).join(" and ")
    off[id] = number ? wanted : null
    at(`${id}-told`).textContent = number ? `${what} is not tabulated: ${near} ${found.near.length > 1 ? "are" : "is"} next to it.` : "Expected a number."
    at(`${id}-told`).classList.add("wrong")
    explorer.show()
  }

  const number = (id) => at(id).value.trim() === "" ? NaN : Number(at(id).value)
  const lookUp = {
    amount: () => {
      const start = index.offsets[groupOf(explorer.state.cell)]
      const amounts = Array.from(index.amounts.subarray(start, index.offsets[groupOf(explorer.state.cell) + 1]))
      const wanted = number("amount")
      // Ten digits of a number suffice to find it; the field then shows all of them.
      const same = amounts.includes(wanted) ? wanted : amounts.find((amount) => amount.toPrecision(10) === wanted.toPrecision(10))
      typed("amount", amounts, same ?? wanted, -Infinity, (found) => change({cell: index.cells[start + found]}), `${wanted}`)
    },
    rounds: () => {
      const text = at("rounds").value.trim().replace(/[,_ ]/g, "")
      const same = index.rounds.indexOf(text)
      if (same >= 0) change({r: same})
      else typed("rounds", index.rounds.map(Number), /^[0-9]+$/.test(text) ? Number(text) : NaN, 1, (r) => change({r}), `r = ${text}`)
    },
    epsilon: () => {
      const power = explorer.state.axis === "y"
      typed("epsilon", Array.from(power ? index.exponential : index.epsilon), number("epsilon"), power ? 1 : 0,
        (e) => change({e}), `${power ? "e^ε" : "ε"} = ${number("epsilon")}`)
    },
    delta: () => {
      const delta = number("delta")
      if (delta > 0 && delta < 1) return change({delta})
      off.delta = null
      at("delta-told").textContent = "Expected a number above 0 and below 1."
      at("delta-told").classList.add("wrong")
      explorer.show()
    },
  }

  // A choice takes the place of what was typed off the grid.
  const FIELDS_OF = {cell: ["amount"], r: ["rounds"], e: ["epsilon"], axis: ["epsilon"], delta: ["delta"]}
  explorer.chosen = (what) => {
    editing = false
    for (const name of Object.keys(what)) for (const id of FIELDS_OF[name] ?? []) delete off[id]
  }
  explorer.forget = () => { for (const id of Object.keys(off)) delete off[id] }

  // The command that computes the points which the store lacks, from the one that names the setting; null where no
  // command does, undefined where nothing is off the grid.
  explorer.refining = (command) => {
    if (!Object.keys(off).length) return undefined
    const {cell, r, e, axis} = explorer.state
    if (command === null || Object.values(off).includes(null)) return null
    if ("amount" in off) {
      const option = index.option[groupOf(cell)]
      if (!option) return null
      command = `${command.replace(new RegExp(` ${option}=\\S+`), "")} ${option}=${off.amount}`
    }
    const epsilon = "epsilon" in off ? `--${axis === "y" ? "exp-" : ""}epsilon=${off.epsilon}` : `--epsilon=${index.epsilon[e]}`
    return `${command} --compositions=${off.rounds ?? index.rounds[r]} ${epsilon} --refine`
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
    on("target", "change", () => {
      const [r, e, delta] = index.targets[Number(at("target").value)]
      change({r, e, delta})
    })
    on("amount-range", "input", () => change({cell: index.cells[index.offsets[groupOf(explorer.state.cell)] + Number(at("amount-range").value)]}))
    on("rounds-range", "input", () => change({r: Number(at("rounds-range").value)}))
    on("epsilon-range", "input", () => change({e: Number(at("epsilon-range").value)}))
    on("delta-range", "input", () => change({delta: Number((10 ** Number(at("delta-range").value)).toPrecision(2))}))
    on("axis", "change", () => change({axis: at("axis").value}))
    for (const [id, look] of Object.entries(lookUp)) {
      const settle = () => {
        if (!editing) return
        editing = false
        delete off[id]
        look()
      }
      // While it is typed no answer on the page is one to it.
      on(id, "input", () => { editing = true; explorer.stale() })
      on(id, "change", settle)
      on(id, "focusout", settle)
      on(id, "keydown", (event) => { if (event.key === "Enter") settle() })
    }
    on("add", "click", () => change({compared: [...explorer.state.compared, explorer.state.cell]}))
  }

  Object.assign(explorer, {groupOf, nameOf, showControls})
})()
