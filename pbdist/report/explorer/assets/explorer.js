// The page: its state, and what follows from a choice.
;(() => {
  const at = (id) => document.getElementById(id)
  const {element, index, groupOf, nameOf} = explorer
  let source
  let turn = 0
  let shown = {}

  const TIPS = [["noise", "@name"], ["ε", "@e nats"], ["e^ε", "@expE"], ["r", "@r"], ["δ at least", "@lower"], ["δ at most", "@upper"]]
  const CURVE = ["x", "y", "marker", "size", "colour", "fill", "name", "key", "lower", "upper", "e", "expE", "r"]
  const NOISE = ["x", "y", "marker", "size", "colour", "fill", "name", "key", "lower", "upper", "amount", "verdict"]
  const figures = {
    curve: new explorer.Figure("curve", {legend: "bottom_left", columns: CURVE, tooltips: TIPS, chosen: (key) => explorer.change({e: key})}),
    growth: new explorer.Figure("growth", {legend: "bottom_right", columns: CURVE, tooltips: TIPS, chosen: (key) => explorer.change({r: key})}),
    noise: new explorer.Figure("noise", {
      legend: "bottom_left", columns: NOISE, chosen: (key) => explorer.change({cell: key}),
      tooltips: [["noise", "@amount"], ["δ at least", "@lower"], ["δ at most", "@upper"], ["at the target", "@verdict"]],
    }),
  }

  // Choices

  explorer.change = (what) => {
    Object.assign(explorer.state, what)
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
    const said = (text) => { at("said").textContent = text }
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
    const {state: found, wrong: told} = explorer.stateOf(location.hash, index.start(), index)
    explorer.state = found
    index.linkNotices = told.map((text) => ({level: "warning", text}))
    showNotices()
    keepLink()
    show()
  }

  // What is shown

  function showNotices() {
    const all = [...index.notices, ...(index.readNotices ?? []), ...(index.linkNotices ?? []), ...(index.failure ?? [])]
    if (index.leftOut) all.push({level: "note", text: index.leftOut})
    at("notices").replaceChildren(...all.map(({level, text}) => element("p", {class: `notice ${level}`}, text)))
  }

  function fail(error) {
    const text = error instanceof explorer.Failure ? error.message : `The page has failed: ${error.message}`
    index.failure = [{level: "error", text}]
    showNotices()
  }

  async function show() {
    const mine = ++turn
    document.querySelector("main").setAttribute("aria-busy", "true")
    const now = {...explorer.state, cells: [explorer.state.cell, ...explorer.state.compared.filter((cell) => cell !== explorer.state.cell)]}
    try {
      explorer.showControls()
      const [curves, growths] = await Promise.all(["compositions", "epsilon"].map((axis) =>
        Promise.all(now.cells.map((cell) => source.bounds(cell, axis, axis === "compositions" ? now.r : now.e)))))
      if (mine !== turn) return
      shown = {now, curves, growths}
      showVerdict()
      showPoints()
      await showCurves()
      if (mine === turn) await showNoise(mine)
      if (mine === turn && index.failure) { index.failure = null; showNotices() }
    } catch (error) {
      if (mine === turn) fail(error)
    } finally {
      if (mine === turn) document.querySelector("main").setAttribute("aria-busy", "false")
    }
  }

  const commandAt = (answer, r, e) => answer.command === null ? null
    : `${answer.command} --compositions=${index.rounds[r]} --epsilon=${index.epsilon[e]}`

  function showVerdict() {
    const {now, curves} = shown
    const told = curves.map((answer) => {
      const point = answer.points[now.e]
      return {answer, point, verdict: explorer.verdictOf(point, now.delta)}
    })
    const [{answer, point, verdict}] = told
    const sentences = [
      `δ is at most ${explorer.upperText(point)}, so it meets δ ≤ ${explorer.small(now.delta)}.`,
      `δ is at least ${explorer.lowerText(point)}, so δ ≤ ${explorer.small(now.delta)} is refuted.`,
      Number.isNaN(point.lower)
        ? `δ is at most ${explorer.upperText(point)}, and no lower bound is known: whether δ ≤ ${explorer.small(now.delta)} is undecided.`
        : `δ is from ${explorer.lowerText(point)} to ${explorer.upperText(point)}: whether δ ≤ ${explorer.small(now.delta)} is undecided.`,
      `Not known: ${answer.gaps || "this point is missing"}.`,
    ]
    const where = `after ${explorer.grouped(index.rounds[now.r])} ${index.rounds[now.r] === "1" ? "round" : "rounds"} at ε = ${explorer.plain(index.epsilon[now.e])} (e^ε = ${explorer.plain(index.exponential[now.e])})`
    const wide = point.within === false && verdict !== 3 ? " These bounds are wider than the study's tolerance; they hold nevertheless." : ""
    at("verdict").replaceChildren(
      element("p", {}, element("span", {class: "verdict"}, `${nameOf(now.cell)}, ${where}: ${explorer.VERDICTS[verdict]}. `), `${sentences[verdict]}${wide}`),
      element("p", {class: "hint"}, answer.setting + (answer.gaps && verdict !== 3 ? `. Some of its points are missing: ${answer.gaps}` : "")),
    )
    const command = commandAt(answer, now.r, now.e)
    at("command").textContent = command ?? "No command asks for this setting: it differs from others in no option of pbdist query."
    at("copy").disabled = command === null
    const heads = [["noise setting"], ["δ lower", true], ["δ upper", true], ["at the target"], ["command"], ["comparison"]]
    const rows = told.map((one, position) => [
      [explorer.key(position), nameOf(one.answer.cell)], explorer.lowerText(one.point), explorer.upperText(one.point),
      explorer.VERDICTS[one.verdict],
      [copyButton(one.answer, now.r, now.e)],
      [explorer.state.compared.includes(one.answer.cell) ? element("button", {
        type: "button", "aria-label": `Remove ${nameOf(one.answer.cell)}`,
        onclick: () => explorer.change({compared: explorer.state.compared.filter((cell) => cell !== one.answer.cell)}),
      }, "Remove") : ""],
    ])
    explorer.fillTable(at("settings"), `Bounds on δ ${where}`, heads, rows)
  }

  function copyButton(answer, r, e) {
    const command = commandAt(answer, r, e)
    if (command === null) return "none"
    return element("button", {
      type: "button", title: command, "data-command": command, "aria-label": `Copy the command of ε = ${index.epsilon[e]}`,
      onclick: () => explorer.copied(command, (text) => { at("said").textContent = text }),
    }, "Copy")
  }

  function showPoints() {
    if (!at("values").open) return
    const {now, curves} = shown
    const heads = [["noise setting"], ["ε", true], ["e^ε", true], ["δ lower", true], ["δ upper", true], ["command"]]
    const rows = curves.flatMap((answer) => explorer.thinned(answer.points.length).map((e) => [
      nameOf(answer.cell), explorer.plain(index.epsilon[e]), explorer.plain(index.exponential[e]),
      explorer.lowerText(answer.points[e]), explorer.upperText(answer.points[e]), [copyButton(answer, now.r, e)],
    ]))
    explorer.fillTable(at("points"), `Bounds on δ after ${index.rounds[now.r]} rounds`, heads, rows)
  }

  async function showCurves() {
    const {now, curves, growths} = shown
    const target = Math.log10(now.delta)
    const xs = now.axis === "y" ? index.exponential : index.epsilon
    const told = (r, e) => ({e: explorer.plain(index.epsilon[e]), expE: explorer.plain(index.exponential[e]), r: index.rounds[r]})
    const over = curves.map((answer, look) => ({look, x: xs, points: answer.points, name: nameOf(answer.cell), told: (e) => told(now.r, e)}))
    const reach = finiteReach(xs)
    await figures.curve.show({xType: "linear", xLabel: now.axis === "y" ? "e^ε" : "ε, in nats", target, reach,
      ...explorer.curves(over, true, CURVE)})
    const gaps = curves.filter((answer) => answer.gaps).map((answer) => `${nameOf(answer.cell)}: ${answer.gaps}.`)
    const open = curves.some((answer) => answer.points.some((point) => point.within === false && !Number.isNaN(point.upper))) ? " Hollow points are wider than the tolerance." : ""
    const edge = (answers) => answers.some((answer) => answer.points.some((point) => point.logUpper === -Infinity)) ? " Points on the lower edge are 0." : ""
    const thin = index.epsilon.length > 400 ? " Of more than 400 points 400 are drawn; the CSV file has all." : ""
    at("curve-told").textContent = `Points are tabulated; the shade is what they prove between them, as δ does not rise with ε; lines only join points.${open}${edge(curves)}${thin} ${gaps.join(" ")}`
    const rounds = index.rounds.map(Number)
    const along = growths.map((answer, look) => ({look, x: rounds, points: answer.points, name: nameOf(answer.cell), told: (r) => told(r, now.e)}))
    await figures.growth.show({xType: "log", xLabel: "rounds r", target, reach: finiteReach(rounds), ...explorer.curves(along, false, CURVE)})
    at("growth-told").textContent = `Points are tabulated; lines only join them: between tabulated r nothing is drawn that is proved.${edge(growths)}`
  }

  const finiteReach = (values) => {
    const found = Array.from(values).filter(Number.isFinite)
    return [Math.min(...found), Math.max(...found)]
  }

  async function showNoise(mine) {
    const {now} = shown
    const group = groupOf(now.cell)
    let found = await source.verdicts(group, now.r, now.e, now.delta)
    while ("progress" in found) {
      at("progress-row").textContent = `Reading the store: read ${Math.floor(100 * found.progress)} %.`
      await new Promise((resolve) => setTimeout(resolve, 150))
      if (mine !== turn) return
      found = await source.verdicts(group, now.r, now.e, now.delta)
    }
    if (mine !== turn) return
    at("progress-row").textContent = ""
    shown.noise = found
    const has = index.what[group] !== ""
    showCertificate(group, found, has)
    const drawn = found.points.filter((point) => Number.isFinite(point.amount))
    at("noise").hidden = !has || !drawn.length
    if (!at("noise").hidden) {
      const amounts = finiteReach(drawn.map((point) => point.amount))
      const xType = amounts[0] > 0 && amounts[1] / amounts[0] >= 20 ? "log" : "linear"
      const names = [`meets δ ≤ ${explorer.small(now.delta)}`, "refuted (lower bound)", "undecided"]
      await figures.noise.show({xType, xLabel: index.what[group], target: Math.log10(now.delta), reach: amounts,
        ...explorer.brackets({points: drawn}, names, NOISE)})
    }
    const most = found.points.length < found.of ? ` Of ${explorer.grouped(String(found.of))} settings ${found.points.length} are drawn, all are judged.` : ""
    at("noise-told").textContent = has ? `The dotted line is the target's δ.${most}` : ""
    follow(mine)
  }

  function showCertificate(group, found, has) {
    const {now} = shown
    const {points, counts} = found
    const pointAt = (position) => position === null ? null : points.find((point) => point.position === position)
    const [smallest, refuted] = [pointAt(found.smallest), pointAt(found.refuted)]
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
    lines.push(element("p", {class: "hint"}, `Of these ${explorer.grouped(String(found.of))} settings: ${words.filter((_, code) => counts[code] || code < 2).join(", ")}.`))
    at("certificate").replaceChildren(...lines)
  }

  // What reading the whole store finds out is told when it is found.
  async function follow(mine) {
    if (index.followed) return
    try {
      const {progress, notices} = await source.progress(shown.now.r, shown.now.e)
      index.readNotices = notices
      showNotices()
      at("progress-row").textContent = progress < 1 ? `Reading the rest of the store: read ${Math.floor(100 * progress)} %.` : ""
      if (progress < 1) setTimeout(() => { if (mine === turn) follow(mine) }, 500)
      else index.followed = true
    } catch (error) { fail(error) }
  }

  function saveCsv(name) {
    const {now, curves, growths, noise} = shown
    const heads = ["mechanism", "setting", "r [1]", "epsilon [nats]", "exp_epsilon [1]", ...explorer.BOUND_HEADS]
    let rows
    if (name === "noise") {
      const group = groupOf(now.cell)
      rows = noise.points.map((point) => [index.labels[group], nameOf(point.cell), index.rounds[now.r], index.epsilon[now.e],
        index.exponential[now.e], ...explorer.boundCells(point), point.amount, explorer.VERDICTS[point.verdict], now.delta])
      heads.push(`amount [${index.what[group] || "none"}]`, "verdict", "target delta [1]")
    } else {
      rows = (name === "curve" ? curves : growths).flatMap((answer) => answer.points.map((point, place) => {
        const [r, e] = name === "curve" ? [now.r, place] : [place, now.e]
        return [index.labels[groupOf(answer.cell)], answer.setting, index.rounds[r], index.epsilon[e], index.exponential[e],
          ...explorer.boundCells(point), point.within === null ? "" : String(point.within), commandAt(answer, r, e)]
      }))
      heads.push("within_tolerance", "command")
    }
    explorer.download(`${index.title}-${name}.csv`, new Blob([explorer.csv(heads, rows)], {type: "text/csv"}))
  }

  // The beginning

  function take(found) {
    Object.assign(index, {
      title: found.title, digest: found.digest, rounds: found.compositions, labels: found.labels, fixed: found.fixed, what: found.what,
      notices: found.notices, leftOut: found.left_out,
      epsilon: explorer.unpacked(found.epsilon), exponential: explorer.unpacked(found.exp_epsilon),
      offsets: explorer.unpacked(found.offsets), cells: explorer.unpacked(found.cells), amounts: explorer.unpacked(found.amounts),
      distinct: [...new Set(found.labels)],
      short: (group) => (found.what[group] || "noise").split(",")[0].replace(/ of the .*$/, ""),
    })
    index.place = new Map(Array.from(index.cells, (cell, place) => [cell, place]))
    index.start = () => ({
      cell: index.cells[0], r: Math.floor((index.rounds.length - 1) / 2), e: Math.floor((index.epsilon.length - 1) / 2),
      axis: "e", delta: 1e-5, compared: [],
    })
    at("title").textContent = found.title
    at("about").textContent = `${found.store}, study ${found.digest}: ${explorer.grouped(String(index.cells.length))} noise settings, ${index.rounds.length} r, ${index.epsilon.length} ε. Method ${found.method}${found.tolerance === null ? "" : `, tolerance ${found.tolerance}`}.`
    at("filter-row").hidden = index.distinct.length <= explorer.MOST_OPTIONS
  }

  async function begin() {
    const embedded = at("embedded")
    source = embedded ? new explorer.Embedded(JSON.parse(embedded.textContent)) : new explorer.Served()
    index.notices = []
    try {
      take(await source.contents())
    } catch (error) {
      return fail(error)
    }
    listen()
    at("values").addEventListener("toggle", showPoints)
    fromLink()
  }
  document.addEventListener("DOMContentLoaded", begin)
})()
