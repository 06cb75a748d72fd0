// The state of the page as a short link: #h=1f2e3d4c&s=17&r=512&e=0.5&d=0.0001&c=3.5
// h: the store's digest; s: the setting; r: rounds; e or y: ε or e^ε; d: δ; c: what is compared. Values, not positions
// in grids, so that a link stays right when the study is extended.
explorer.linkOf = (state, index) => {
  const parts = [`h=${index.digest}`, `s=${state.cell}`, `r=${index.compositions[state.r]}`]
  // An e^ε may belong to several ε.
  const power = index.exp_epsilon[state.e]
  const alone = index.exp_epsilon.indexOf(power) === index.exp_epsilon.lastIndexOf(power)
  parts.push(state.axis === "y" && alone ? `y=${explorer.shortest(power)}` : `e=${explorer.shortest(index.epsilon[state.e])}`)
  parts.push(`d=${explorer.shortest(state.delta)}`)
  if (state.compared.length) parts.push(`c=${state.compared.join(".")}`)
  return `#${parts.join("&")}`
}

explorer.MOST_COMPARED = 5

// The state that a link names, over a state to begin with, and what is wrong with the link.
explorer.stateOf = (hash, start, index) => {
  const state = {...start, compared: [...start.compared]}
  const wrong = []
  if (hash.length <= 1) return {state, wrong}
  const given = new URLSearchParams(hash.slice(1, 600))
  if (given.get("h") !== index.digest) {
    const of = /^[0-9a-f]{8}$/.test(given.get("h") || "") ? `another store (${given.get("h")}, this one is ${index.digest})` : "no store"
    return {state, wrong: [`The link is of ${of}: it is left out, and the first choice is shown.`]}
  }
  const cell = (text) => /^[0-9]{1,9}$/.test(text || "") && index.place.has(Number(text)) ? Number(text) : null
  const take = (name, found, apply, what) => {
    if (!given.has(name)) return
    if (found === null || found < 0) wrong.push(`The link's ${what} is not in this ${index.left_out ? "file" : "store"}: it is left out.`)
    else apply(found)
  }
  take("s", cell(given.get("s")), (found) => { state.cell = found }, "noise setting")
  take("r", index.compositions.indexOf(given.get("r")), (found) => { state.r = found }, "number of rounds")
  take("e", index.epsilon.indexOf(Number(given.get("e"))), (found) => { state.e = found }, "ε")
  take("y", index.exp_epsilon.indexOf(Number(given.get("y"))), (found) => { state.e = found }, "e^ε")
  state.axis = given.has("y") ? "y" : "e"
  const delta = Number(given.get("d") || NaN)
  take("d", delta > 0 && delta < 1 ? 1 : null, () => { state.delta = delta }, "δ")
  const givenCells = (given.get("c") || "").split(".").filter(Boolean)
  const compared = [...new Set(givenCells.map(cell).filter((one) => one !== null))]
  if (compared.length < givenCells.length || compared.length > explorer.MOST_COMPARED) wrong.push("Part of the link's comparison is left out.")
  state.compared = compared.slice(0, explorer.MOST_COMPARED)
  return {state, wrong}
}
