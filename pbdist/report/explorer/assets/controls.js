// The controls: what they show of the state, and what they change in it.
;(() => {
  const {element, index} = explorer
  const at = (id) => document.getElementById(id)
  const change = (what) => explorer.change(what)

  const groupOf = (cell) => {
    const place = index.place.get(cell)
    return index.offsets.findLastIndex((start) => start <= place)
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

  // A label may have 10^5 groups, of which those near the chosen one are listed.
  const MOST_OPTIONS = 400
  function fillGroups() {
    const group = groupOf(explorer.state.cell)
    const all = groupsOf(index.labels[group])
    at("group-row").hidden = all.length < 2
    const near = Math.max(0, Math.min(all.indexOf(group) - MOST_OPTIONS / 2, all.length - MOST_OPTIONS))
    options(at("group"), all.slice(near, near + MOST_OPTIONS).map((one) => [one, index.fixed[one]]), group)
  }

  // Off the grid: the numbers in the fields that are not tabulated, by field; null for what is no such number at all.
  const off = {}
  // Whether a field has changed and is not looked up yet.
  let editing = false

  function showTargets() {
    const {r, e, delta} = explorer.state
    const loss = (value) => `${Number(explorer.brief(value)) === value ? "=" : "≈"} ${explorer.brief(value)}`
    const texts = index.targets.map(([r, e, delta]) => `r = ${explorer.grouped(index.compositions[r])}, ε ${loss(index.epsilon[e])}, δ ≤ ${explorer.plain(delta)}`)
    at("target-row").hidden = !texts.length
    const chosen = index.targets.findIndex((one) => one[0] === r && one[1] === e && one[2] === delta)
    options(at("target"), [...(chosen < 0 ? [[-1, "another target"]] : []), ...texts.map((text, place) => [place, text])], chosen)
  }

  // The fields that choose from a grid, each with a slider.
  const span = () => { const group = groupOf(explorer.state.cell); return [index.offsets[group], index.offsets[group + 1]] }
  const losses = () => explorer.state.axis === "y" ? index.exp_epsilon : index.epsilon
  const GRIDS = {
    amount: {
      values: () => Array.from(index.amounts.subarray(...span())), count: () => span()[1] - span()[0], least: -Infinity, what: () => "",
      place: () => index.place.get(explorer.state.cell) - span()[0], choice: (place) => ({cell: index.cells[span()[0] + place]}),
      text: (place) => explorer.plain(index.amounts[span()[0] + place]), spoken: () => nameOf(explorer.state.cell),
      hint: (place, count) => `setting ${place + 1} of ${count}, by increasing noise`,
    },
    rounds: {
      values: () => index.compositions.map(Number), count: () => index.compositions.length, least: 1, what: () => "r = ",
      place: () => explorer.state.r, choice: (r) => ({r}), text: (r) => index.compositions[r], spoken: (r) => index.compositions[r],
      hint: (_, count) => `${count} tabulated`,
    },
    epsilon: {
      values: () => Array.from(losses()), count: () => index.epsilon.length, get least() { return explorer.state.axis === "y" ? 1 : 0 }, what: () => explorer.state.axis === "y" ? "e^ε = " : "ε = ",
      place: () => explorer.state.e, choice: (e) => ({e}), text: (e) => explorer.brief(losses()[e]), spoken: (e) => `ε = ${index.epsilon[e]}`,
      hint: (e, count) => `ε = ${explorer.plain(index.epsilon[e])}, e^ε = ${explorer.plain(index.exp_epsilon[e])}; ${count} tabulated`,
    },
  }

  function showControls() {
    const {cell, delta, axis, compared} = explorer.state
    options(at("label"), index.distinct.map((label) => [label, label]), index.labels[groupOf(cell)])
    fillGroups()
    showTargets()
    for (const [id, grid] of Object.entries(GRIDS)) {
      const [place, count, range] = [grid.place(), grid.count(), at(`${id}-range`)]
      field(id, grid.text(place), grid.hint(place, count))
      Object.assign(range, {max: count - 1, value: place, disabled: count < 2})
      range.setAttribute("aria-valuetext", grid.spoken(place))
    }
    at("amount-row").hidden = GRIDS.amount.count() < 2
    at("amount-label").textContent = index.what[groupOf(cell)] || "Noise"
    at("axis").value = axis
    at("epsilon-label").textContent = axis === "y" ? "e^ε" : "ε, in nats"
    field("delta", explorer.plain(delta), "")
    at("delta-range").value = Math.log10(delta)
    at("delta-range").setAttribute("aria-valuetext", `δ = ${explorer.plain(delta)}`)
    const full = compared.length >= explorer.MOST_COMPARED
    // Off the grid there is nothing to compare or to link to.
    at("link").disabled = Object.keys(off).length > 0
    at("add").disabled = full || compared.includes(cell) || at("link").disabled
    at("add").textContent = full ? `At most ${explorer.MOST_COMPARED} are compared` : "Add to comparison"
  }

  // A field keeps what is typed into it and is off the grid.
  function field(id, value, hint) {
    if (id in off) return
    at(id).value = value
    at(`${id}-hint`).textContent = hint
    at(`${id}-hint`).classList.remove("wrong")
  }

  function wrong(id, value, text) {
    off[id] = value
    at(`${id}-hint`).textContent = text
    at(`${id}-hint`).classList.add("wrong")
    explorer.show()
  }

  // Looks up what is typed: of a value that is not tabulated the neighbours are named.
  function lookUp(id) {
    const text = at(id).value.trim().replace(/[,_ ]/g, "")
    const wanted = text === "" ? NaN : Number(text)
    if (id === "delta") return wanted > 0 && wanted < 1 ? change({delta: wanted}) : wrong(id, null, "Expected a number above 0 and below 1.")
    const grid = GRIDS[id]
    const values = grid.values()
    let place = id === "rounds" ? index.compositions.indexOf(text) : values.indexOf(wanted)
    // The field shows 6 digits of the ε that is chosen.
    if (place < 0 && id === "epsilon" && text === grid.text(grid.place())) place = grid.place()
    // Ten digits of an amount suffice to find it; the field then shows all of them.
    if (place < 0 && id === "amount") place = values.findIndex((value) => value.toPrecision(10) === wanted.toPrecision(10))
    if (place >= 0) return change(grid.choice(place))
    if (!Number.isFinite(wanted) || wanted < grid.least || (id === "rounds" && !/^[0-9]+$/.test(text))) return wrong(id, null, "Expected a number.")
    const near = [values.findLastIndex((value) => value < wanted), values.findIndex((value) => value > wanted)].filter((one) => one >= 0)
    wrong(id, text, `${grid.what()}${text} is not tabulated: ${near.map((one) => String(values[one])).join(" and ")} ${near.length > 1 ? "are" : "is"} next to it.`)
  }

  // A choice takes the place of what was typed off the grid.
  const FIELDS_OF = {cell: ["amount"], r: ["rounds"], e: ["epsilon"], axis: ["epsilon"], delta: ["delta"]}
  explorer.chosen = (what) => {
    editing = false
    for (const name of Object.keys(what)) for (const id of FIELDS_OF[name] ?? []) delete off[id]
  }
  explorer.forget = () => { for (const id of Object.keys(off)) delete off[id] }

  // The command that computes the points which the store lacks, from the one that names the setting, and whether stored
  // points can prove anything of them; null where no command does, undefined where nothing is off the grid.
  explorer.refining = ({command, ordered}) => {
    if (!Object.keys(off).length) return undefined
    const {cell, r, e, axis} = explorer.state
    if (command === null || Object.values(off).includes(null)) return null
    if ("amount" in off) {
      const option = index.option[groupOf(cell)]
      if (!option) return null
      command = `${command.replace(new RegExp(` ${option}=\\S+`), "")} ${option}=${off.amount}`
    }
    const epsilon = "epsilon" in off ? `--${axis === "y" ? "exp-" : ""}epsilon=${off.epsilon}` : `--epsilon=${index.epsilon[e]}`
    return [`${command} --compositions=${off.rounds ?? index.compositions[r]} ${epsilon} --refine`, ordered || !("amount" in off)]
  }

  explorer.listenToControls = () => {
    const on = (id, event, action) => at(id).addEventListener(event, action)
    on("controls", "submit", (event) => event.preventDefault())
    on("label", "change", () => {
      const [group] = groupsOf(at("label").value)
      change({cell: index.cells[index.offsets[group]]})
    })
    on("group", "change", () => change({cell: index.cells[index.offsets[Number(at("group").value)]]}))
    on("target", "change", () => {
      const [r, e, delta] = index.targets[Number(at("target").value)]
      change({r, e, delta})
    })
    for (const [id, grid] of Object.entries(GRIDS)) on(`${id}-range`, "input", () => change(grid.choice(Number(at(`${id}-range`).value))))
    on("delta-range", "input", () => change({delta: Number((10 ** Number(at("delta-range").value)).toPrecision(2))}))
    on("axis", "change", () => change({axis: at("axis").value}))
    for (const id of [...Object.keys(GRIDS), "delta"]) {
      const settle = () => {
        if (!editing) return
        editing = false
        delete off[id]
        lookUp(id)
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
