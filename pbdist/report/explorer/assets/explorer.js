// The page: its state, and what follows from a choice.
;(() => {
  const at = (id) => document.getElementById(id)
  const {element, index, groupOf, nameOf} = explorer
  let source
  let turn = 0
  let shown = {}

  const BOUNDS = [["δ at least", "@lower"], ["δ at most", "@upper"]]
  const TIPS = [["noise", "@name"], ["ε", "@e nats"], ["e^ε", "@expE"], ["r", "@r"], ...BOUNDS]
  const figures = {
    curve: new explorer.Figure("curve", {tooltips: TIPS, chosen: (e) => explorer.change({e})}),
    growth: new explorer.Figure("growth", {tooltips: TIPS, chosen: (r) => explorer.change({r})}),
    noise: new explorer.Figure("noise", {
      tooltips: [["noise", "@amount"], ...BOUNDS, ["at the target", "@verdict"]], chosen: (cell) => explorer.change({cell}),
    }),
  }

  // Choices

  explorer.change = (what) => {
    Object.assign(explorer.state, what)
    explorer.chosen(what)
    keepLink()
    show()
  }

  // Browsers refuse more than some changes of the address a second, as a slider makes them.
  const LINK_PAUSE = 200
  function keepLink() {
    clearTimeout(index.linkTimer)
    index.linkTimer = setTimeout(() => history.replaceState(null, "", explorer.linkOf(explorer.state, index)), LINK_PAUSE)
  }

  function listen() {
    explorer.listenToControls()
    at("link").addEventListener("click", () => explorer.copied(location.href.split("#")[0] + explorer.linkOf(explorer.state, index), said))
    at("copy").addEventListener("click", () => explorer.copied(at("command").textContent, said))
    for (const button of document.querySelectorAll("[data-csv]")) button.addEventListener("click", () => saveCsv(button.dataset.csv))
    for (const button of document.querySelectorAll("[data-svg]")) button.addEventListener("click", async () => {
      const drawing = await figures[button.dataset.svg].svg()
      if (drawing === null) said("Nothing is drawn there.")
      else explorer.download(`${index.title}-${button.dataset.svg}.svg`, drawing)
    })
    window.addEventListener("hashchange", fromLink)
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show)
  }

  function fromLink() {
    const {state: found, wrong} = explorer.stateOf(location.hash, index.start(), index)
    explorer.state = found
    explorer.forget()
    index.linkNotices = wrong.map((text) => ({level: "warning", text}))
    showNotices()
    keepLink()
    show()
  }

  // What is shown

  function showNotices() {
    const all = [...index.notices, ...(index.readNotices ?? []), ...(index.linkNotices ?? []), ...(index.failure ?? [])]
    if (index.left_out) all.push({level: "note", text: index.left_out})
    at("notices").replaceChildren(...all.map(({level, text}) => element("p", {class: `notice ${level}`}, text)))
  }

  function fail(error) {
    const text = error instanceof explorer.Failure ? error.message : `The page has failed: ${error.message}`
    index.failure = [{level: "error", text}]
    showNotices()
    at("status").replaceChildren(element("p", {class: "wrong"}, `No answer to this choice: ${text}`), earlier())
  }

  // Every answer on the page is grey, and cannot be used, until it is one to the present choice.
  explorer.stale = () => {
    turn++
    for (const answer of document.querySelectorAll(".answer")) { answer.classList.add("stale"); answer.inert = true }
    at("status").replaceChildren()
    at("noise-progress").textContent = ""
  }

  function fresh(name) {
    at(`${name}-answer`).classList.remove("stale")
    at(`${name}-answer`).inert = false
  }

  const earlier = () => element("p", {class: "hint"}, "What is grey is of an earlier choice.")

  async function show() {
    explorer.stale()
    const mine = turn
    document.querySelector("main").setAttribute("aria-busy", "true")
    const now = {...explorer.state, cells: [explorer.state.cell, ...explorer.state.compared.filter((cell) => cell !== explorer.state.cell)]}
    if (index.failure) { index.failure = null; showNotices() }
    try {
      explorer.showControls()
      const answers = await Promise.all(now.cells.map((cell) => source.cell(cell)))
      if (mine !== turn) return
      const refining = explorer.refining(answers[0])
      if (refining !== undefined) return showOffer(refining)
      shown = {now, answers, curves: answers.map((answer) => answer.over(now.r)), growths: answers.map((answer) => answer.along(now.e))}
      fresh("verdict")
      showVerdict()
      await showCurves(mine)
      if (mine === turn) await showNoise(mine)
    } catch (error) {
      if (mine === turn) fail(error)
    } finally {
      if (mine === turn) document.querySelector("main").setAttribute("aria-busy", "false")
    }
  }
  explorer.show = show

  // A point off the grid has no answer here: the command that has one.
  function showOffer(refining) {
    const [command, provable] = refining ?? []
    const without = provable ? "it answers if the stored points prove bounds" : "there is no answer, as no order between these noise settings is known"
    const found = refining === null
      ? [element("p", {}, "Correct the choice, or take a tabulated value: no command of pbdist query has an answer to it.")]
      : [
        element("p", {}, "This point is not tabulated. This command computes it and adds it to the store; without --refine ", without, ":"),
        element("p", {}, element("code", {id: "refine"}, command), " ", copyButton(command, "Copy command", "Copy the command that computes it")),
      ]
    at("status").replaceChildren(...found, earlier())
  }

  const commandAt = (answer, r, e) => answer.command === null ? null
    : `${answer.command} --compositions=${index.compositions[r]} --epsilon=${index.epsilon[e]}`

  function showVerdict() {
    const {now, answers} = shown
    const judged = answers.map((answer) => {
      const point = answer.point(now.r, now.e)
      return {answer, point, verdict: explorer.verdictOf(point, now.delta)}
    })
    const [{answer, point, verdict}] = judged
    const sentences = [
      `δ is at most ${explorer.upperText(point)}, so it meets δ ≤ ${explorer.plain(now.delta)}.`,
      `δ is at least ${explorer.lowerText(point)}, so δ ≤ ${explorer.plain(now.delta)} is refuted.`,
      Number.isNaN(point.lower)
        ? `δ is at most ${explorer.upperText(point)}, and no lower bound is known: whether δ ≤ ${explorer.plain(now.delta)} is undecided.`
        : `δ is from ${explorer.lowerText(point)} to ${explorer.upperText(point)}: whether δ ≤ ${explorer.plain(now.delta)} is undecided.`,
      `Not known: ${answer.gaps || "this point is missing"}.`,
    ]
    const where = `after ${explorer.grouped(index.compositions[now.r])} ${index.compositions[now.r] === "1" ? "round" : "rounds"} at ε = ${explorer.plain(index.epsilon[now.e])} (e^ε = ${explorer.plain(index.exp_epsilon[now.e])})`
    at("verdict").replaceChildren(
      element("p", {}, element("span", {class: "verdict"}, `${nameOf(now.cell)}, ${where}: ${explorer.VERDICTS[verdict]}. `), sentences[verdict]),
      element("p", {class: "hint"}, answer.setting + (answer.gaps && verdict !== 3 ? `. Some of its points are missing: ${answer.gaps}` : "")),
    )
    const command = commandAt(answer, now.r, now.e)
    at("command").textContent = command ?? "No command asks for this setting: it differs from others in no option of pbdist query."
    at("copy").disabled = command === null
    const heads = [["noise setting"], ["δ lower", true], ["δ upper", true], ["at the target"], ["command"], ["comparison"]]
    const rows = judged.map((one, position) => [
      [explorer.key(explorer.look(position)), nameOf(one.answer.cell)], explorer.lowerText(one.point), explorer.upperText(one.point),
      explorer.VERDICTS[one.verdict],
      [copyButton(commandAt(one.answer, now.r, now.e), "Copy", `Copy the command of ${nameOf(one.answer.cell)}`)],
      [explorer.state.compared.includes(one.answer.cell) ? element("button", {
        type: "button", "aria-label": `Remove ${nameOf(one.answer.cell)}`,
        onclick: () => explorer.change({compared: explorer.state.compared.filter((cell) => cell !== one.answer.cell)}),
      }, "Remove") : ""],
    ])
    explorer.fillTable(at("settings"), `Bounds on δ ${where}`, heads, rows)
  }

  const said = (text) => { at("said").textContent = text }

  function copyButton(command, text, label) {
    if (command === null) return "none"
    return element("button", {type: "button", title: command, "aria-label": label, onclick: () => explorer.copied(command, said)}, text)
  }

  async function showCurves(mine) {
    const {now, answers, curves, growths} = shown
    const target = Math.log10(now.delta)
    const xs = now.axis === "y" ? index.exp_epsilon : index.epsilon
    const names = answers.map((answer) => nameOf(answer.cell))
    const tips = (r, e) => ({e: explorer.plain(index.epsilon[e]), expE: explorer.plain(index.exp_epsilon[e]), r: index.compositions[r]})
    const drawn = (all, x, tips, steps) => explorer.curves(all.map((points, look) => ({look, x, points, name: names[look], tips})), steps)
    const edge = (all) => all.flat().some((point) => point.logUpper === -Infinity) ? " Points on the lower edge are 0." : ""
    const draw = async (name, wanted) => {
      await figures[name].show({target, ...wanted})
      if (mine === turn) fresh(name)
    }
    await draw("curve", {xType: "linear", xLabel: now.axis === "y" ? "e^ε" : "ε, in nats", reach: finiteReach(xs), ...drawn(curves, xs, (e) => tips(now.r, e), true)})
    const gaps = answers.map((answer, one) => answer.gaps && `${names[one]}: ${answer.gaps}.`).join(" ")
    const thin = index.epsilon.length > 400 ? " Of more than 400 points 400 are drawn; the CSV file has all." : ""
    at("curve-hint").textContent = `Points are tabulated; the shade is what they prove between them, as δ does not rise with ε; lines only join points.${edge(curves)}${thin} ${gaps}`
    const rounds = index.compositions.map(Number)
    await draw("growth", {xType: "log", xLabel: "rounds r", reach: finiteReach(rounds), ...drawn(growths, rounds, (r) => tips(r, now.e), false)})
    at("growth-hint").textContent = `Points are tabulated; lines only join them: between tabulated r nothing is drawn that is proved.${edge(growths)}`
  }

  const finiteReach = (values) => {
    const found = Array.from(values).filter(Number.isFinite)
    return [Math.min(...found), Math.max(...found)]
  }

  async function showNoise(mine) {
    const {now} = shown
    const group = groupOf(now.cell)
    const found = await source.group(group, now.r, now.e, (share) => {
      if (mine === turn) at("noise-progress").textContent = `Reading the store: read ${Math.floor(100 * share)} %.`
      return mine === turn
    })
    if (mine !== turn) return
    at("noise-progress").textContent = ""
    if (found.notices.length) { index.readNotices = found.notices; showNotices() }
    const start = index.offsets[group]
    const judged = explorer.judged(found.points, now.delta)
    const pointOf = (place) => ({...found.points[place], cell: index.cells[start + place], amount: index.amounts[start + place], verdict: judged.verdicts[place]})
    shown.noise = () => found.points.map((_, place) => pointOf(place))
    const places = explorer.thinned(found.points.length, [judged.smallest, judged.refuted].filter((place) => place >= 0))
    const points = places.map(pointOf).filter((point) => Number.isFinite(point.amount))
    const has = index.what[group] !== "" && points.length > 0
    at("noise-plot").hidden = !has
    if (has) {
      const amounts = finiteReach(points.map((point) => point.amount))
      const names = [`meets δ ≤ ${explorer.plain(now.delta)}`, "refuted (lower bound)", "undecided"]
      await figures.noise.show({
        xType: amounts[0] > 0 && amounts[1] / amounts[0] >= 20 ? "log" : "linear", xLabel: index.what[group], target: Math.log10(now.delta), reach: amounts,
        ...explorer.brackets(points, names),
      })
      if (mine !== turn) return
    }
    const count = found.points.length
    at("noise-hint").textContent = places.length < count ? `Of ${explorer.grouped(String(count))} settings ${places.length} are drawn, all are judged.` : ""
    fresh("noise")
    showCertificate(group, judged, pointOf, has)
  }

  function showCertificate(group, found, pointOf, has) {
    const [smallest, refuted] = [found.smallest, found.refuted].map((place) => place < 0 ? null : pointOf(place))
    const {counts} = found
    const lines = []
    const choose = (point) => element("button", {type: "button", onclick: () => explorer.change({cell: point.cell})}, "Choose it")
    const name = (point) => has ? `${index.short(group)} ${explorer.plain(point.amount)}` : nameOf(point.cell)
    if (smallest) {
      lines.push(element("p", {}, element("span", {class: "verdict"}, `The least tabulated noise that meets the target: ${name(smallest)}. `),
        `δ is at most ${explorer.upperText(smallest)}. `, choose(smallest)))
    } else lines.push(element("p", {class: "verdict"}, "No tabulated noise of these settings is known to meet the target."))
    if (refuted) {
      lines.push(element("p", {}, `The most noise ${smallest ? "below it " : ""}that is refuted: ${name(refuted)}. δ is at least ${explorer.lowerText(refuted)}. `,
        choose(refuted), smallest ? " Nothing is said of noise between the two." : ""))
    } else if (smallest) lines.push(element("p", {}, "No tabulated noise below it is refuted: that less is too little is not shown."))
    const words = counts.map((count, code) => `${explorer.grouped(String(count))} ${explorer.VERDICTS[code]}`)
    lines.push(element("p", {class: "hint"}, `Of these ${explorer.grouped(String(found.verdicts.length))} settings: ${words.filter((_, code) => counts[code] || code < 2).join(", ")}.`))
    at("certificate").replaceChildren(...lines)
  }

  function saveCsv(name) {
    const {now, answers, noise} = shown
    const heads = ["mechanism", "setting", "r [1]", "epsilon [nats]", "exp_epsilon [1]", ...explorer.BOUND_HEADS]
    let rows
    if (name === "noise") {
      const group = groupOf(now.cell)
      rows = noise().map((point) => [index.labels[group], nameOf(point.cell), index.compositions[now.r], index.epsilon[now.e],
        index.exp_epsilon[now.e], ...explorer.boundCells(point), point.amount, explorer.VERDICTS[point.verdict], now.delta])
      heads.push(`amount [${index.what[group] || "none"}]`, "verdict", "target delta [1]")
    } else {
      rows = answers.flatMap((answer, one) => shown[`${name}s`][one].map((point, place) => {
        const [r, e] = name === "curve" ? [now.r, place] : [place, now.e]
        return [index.labels[groupOf(answer.cell)], answer.setting, index.compositions[r], index.epsilon[e], index.exp_epsilon[e],
          ...explorer.boundCells(point), commandAt(answer, r, e)]
      }))
      heads.push("command")
    }
    explorer.download(`${index.title}-${name}.csv`, new Blob([explorer.csv(heads, rows)], {type: "text/csv"}))
  }

  // The beginning

  function take(found) {
    const arrays = ["epsilon", "exp_epsilon", "offsets", "cells", "amounts"].map((name) => [name, explorer.unpacked(found[name])])
    Object.assign(index, found, Object.fromEntries(arrays), {
      distinct: [...new Set(found.labels)],
      short: (group) => (found.what[group] || "noise").split(",")[0].replace(/ of the .*$/, ""),
    })
    index.place = new Map(Array.from(index.cells, (cell, place) => [cell, place]))
    const [r, e, delta] = index.targets[0] ?? [Math.floor((index.compositions.length - 1) / 2), Math.floor((index.epsilon.length - 1) / 2), 1e-5]
    index.start = () => ({cell: index.cells[0], r, e, axis: "e", delta, compared: []})
    at("title").textContent = found.title
    at("about").textContent = `${found.store}, study ${found.digest}: ${explorer.grouped(String(index.cells.length))} noise settings, ${index.compositions.length} r, ${index.epsilon.length} ε. Method ${found.method}${found.tolerance === null ? "" : `, tolerance ${found.tolerance}`}.`
  }

  async function begin() {
    const embedded = at("embedded")
    source = embedded ? new explorer.Embedded(index, JSON.parse(embedded.textContent)) : new explorer.Served(index)
    index.notices = []
    try {
      take(await source.contents())
    } catch (error) {
      return fail(error)
    }
    listen()
    fromLink()
  }
  document.addEventListener("DOMContentLoaded", begin)
})()
