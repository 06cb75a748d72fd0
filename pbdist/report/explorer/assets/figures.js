// The figures, drawn by BokehJS: log10 δ on a linear axis, so that δ of 1e-300 and below have their place.
const MARKERS = ["circle", "square", "triangle", "diamond", "inverted_triangle", "hex"]
const DASHES = ["solid", "dashed", "dotted", "dotdash", "dashdot", "solid"]
const COLOURS = {
  light: ["#0b57b0", "#b34700", "#00714f", "#8a2d7a", "#6b5900", "#333333"],
  dark: ["#7fb4ff", "#ffb066", "#4fd1a5", "#f29be0", "#e6d35a", "#dddddd"],
}
const HOLLOW = "rgba(0,0,0,0)"
explorer.theme = () => matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"
explorer.look = (index) => {
  const colour = COLOURS[explorer.theme()][index]
  return {marker: MARKERS[index], dash: DASHES[index], colour, fill: colour}
}
// Verdicts differ in marker and colour: meets, refuted, undecided.
explorer.verdictLook = (code) => {
  const colour = [["#0b57b0", "#7fb4ff"], ["#9b1c1c", "#ff8f8f"], ["#6b5900", "#e6d35a"]][code][explorer.theme() === "dark" ? 1 : 0]
  return {marker: ["circle", "x", "diamond"][code], colour, fill: code ? HOLLOW : colour}
}
explorer.TARGET_LOOK = {dash: "dotted", colour: "currentColor"}

// At most so many points of a curve are drawn.
const MOST_DRAWN = 400
const log10 = (log) => Number.isNaN(log) ? -Infinity : log / Math.LN10
const columns = (rows, names) => Object.fromEntries(names.map((name) => [name, rows.map((row) => row[name])]))
const LINES = ["xs", "ys", "colour", "dash"]
const BANDS = ["xs", "ys", "colour"]

explorer.Figure = class {
  constructor(name, options) {
    Object.assign(this, {name, options, host: document.getElementById(name), ready: Promise.resolve()})
    this.columns = ["x", "y", "marker", "size", "colour", "fill", "key", ...options.tooltips.map(([, column]) => column.slice(1).split(" ")[0])]
  }

  // Makes the figure anew: for a theme, or another kind of axis.
  async make(xType) {
    if (this.view) { this.view.remove(); this.host.replaceChildren() }
    this.made = `${xType} ${explorer.theme()}`
    const style = getComputedStyle(document.documentElement)
    const [paper, ink, soft, line] = ["paper", "ink", "soft", "line"].map((name) => style.getPropertyValue(`--${name}`).trim())
    this.x = new Bokeh.Range1d({start: 1, end: 2})
    this.y = new Bokeh.Range1d({start: -1, end: 0})
    const figure = this.figure = Bokeh.Plotting.figure({
      x_range: this.x, y_range: this.y, x_axis_type: xType, height: 360, sizing_mode: "stretch_width", min_width: 200,
      output_backend: "svg", tools: "pan,box_zoom,wheel_zoom,reset", toolbar_location: "above", min_border_right: 12,
      background_fill_color: paper, border_fill_color: paper, outline_line_color: line, y_axis_label: "δ",
    })
    // Dragging and scrolling over a figure move the page, unless a tool is chosen.
    Object.assign(figure.toolbar, {active_scroll: null, active_drag: null, logo: null})
    for (const axis of [...figure.xaxes, ...figure.yaxes]) {
      axis.setv({axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: soft, major_tick_line_color: soft, minor_tick_line_color: line})
    }
    figure.yaxes[0].formatter.doFormat = (ticks) => ticks.map(explorer.powerOfTen)
    figure.yaxes[0].ticker.num_minor_ticks = 0
    for (const grid of figure.center.filter((each) => each instanceof Bokeh.Grid)) grid.grid_line_color = line
    this.sources = {}
    const source = (key, names) => (this.sources[key] = new Bokeh.ColumnDataSource({data: columns([], names)}))
    const field = (name) => ({field: name})
    const path = {xs: field("xs"), ys: field("ys")}
    figure.patches({...path, fill_color: field("colour"), fill_alpha: {value: 0.18}, line_color: {value: null}, source: source("bands", BANDS)})
    figure.multi_line({...path, line_color: field("colour"), line_dash: field("dash"), line_width: {value: 1.6}, source: source("lines", LINES)})
    figure.multi_line({...path, line_color: {value: ink}, line_dash: {value: "dotted"}, line_width: {value: 1.5}, source: source("target", ["xs", "ys"])})
    const points = figure.scatter({x: field("x"), y: field("y"), marker: field("marker"), size: field("size"), line_color: field("colour"),
      fill_color: field("fill"), line_width: {value: 1.5}, source: source("points", this.columns)})
    Object.assign(points, {nonselection_glyph: null, selection_glyph: null})
    figure.add_tools(new Bokeh.HoverTool({renderers: [points], tooltips: this.options.tooltips, mode: "mouse"}), new Bokeh.TapTool({renderers: [points]}))
    const chosen = this.sources.points.selected
    chosen.properties.indices.change.connect(() => {
      const [index] = chosen.indices
      if (index !== undefined) this.options.chosen(this.sources.points.data.key[index])
    })
    this.view = await Bokeh.Plotting.show(figure, this.host)
  }

  // One after the other, as a figure is not made twice at once; what is no longer wanted is not drawn.
  show(wanted) {
    this.wanted = wanted
    this.ready = this.ready.catch(() => null).then(async () => {
      if (this.wanted !== wanted) return
      const {xType, xLabel, points, lines, bands, target, reach, legend} = wanted
      if (this.made !== `${xType} ${explorer.theme()}`) await this.make(xType)
      this.figure.xaxes[0].axis_label = xLabel
      this.fit(xType, reach, [...lines.flatMap(({ys}) => ys), ...points.map(({y}) => y), target].filter(Number.isFinite))
      const down = (rows) => rows.map((row) => ({...row, ys: row.ys.map((value) => Math.max(value, this.y.start))}))
      this.sources.points.selected.indices = []
      this.sources.points.data = columns(points.map((row) => ({...row, y: Math.max(row.y, this.y.start)})), this.columns)
      this.sources.lines.data = columns(down(lines), LINES)
      this.sources.bands.data = columns(down(bands), BANDS)
      this.sources.target.data = {xs: [[this.x.start, this.x.end]], ys: [[target, target]]}
      this.legend = [...legend, [explorer.TARGET_LOOK, "target δ"]]
      document.getElementById(`${this.name}-legend`).replaceChildren(
        ...this.legend.map(([look, name]) => explorer.element("li", {}, explorer.key(look), explorer.element("span", {}, name))))
      this.host.dataset.drawn = points.length
    })
    return this.ready
  }

  fit(xType, [low, high], ys) {
    const pad = (a, b, share) => (a === b ? 1 : (b - a) * share)
    const around = (start, end) => ({start, end, reset_start: start, reset_end: end})
    if (xType === "log") {
      const widen = 10 ** pad(Math.log10(low), Math.log10(high), 0.03)
      this.x.setv(around(low / widen, high * widen))
    } else this.x.setv(around(low - pad(low, high, 0.03), high + pad(low, high, 0.03)))
    const [least, most] = ys.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], ys.length ? [Infinity, -Infinity] : [-1, 0])
    this.y.setv(around(least - Math.max(pad(least, most, 0.06), 0.05), most + Math.max(pad(least, most, 0.05), 0.03)))
  }

  // The figure as it is on the screen, with its legend below.
  async svg() {
    await this.ready
    if (!this.view || this.host.closest("[hidden]")) return null
    const text = await (await this.view.export("svg", false).to_blob()).text()
    const drawing = new DOMParser().parseFromString(text, "image/svg+xml").documentElement
    const [width, height] = ["width", "height"].map((name) => Number.parseFloat(drawing.getAttribute(name)))
    const style = getComputedStyle(document.documentElement)
    const colour = style.getPropertyValue("--ink").trim()
    drawing.append(explorer.svgElement("rect", {y: height, width, height: 20 * this.legend.length, fill: style.getPropertyValue("--paper").trim()}))
    this.legend.forEach(([look, name], row) => {
      const key = explorer.key({...look, colour: look.colour === "currentColor" ? colour : look.colour})
      key.setAttribute("x", 10)
      key.setAttribute("y", height + 20 * row)
      const label = explorer.svgElement("text", {x: 52, y: height + 20 * row + 12, fill: colour, "font-size": 12, "font-family": "sans-serif"})
      label.textContent = name
      drawing.append(key, label)
    })
    drawing.setAttribute("height", height + 20 * this.legend.length)
    drawing.removeAttribute("viewBox")
    return new Blob([new XMLSerializer().serializeToString(drawing)], {type: "image/svg+xml"})
  }
}

// Evenly spaced indices, at most MOST_DRAWN, with the first and the last, and those near some that matter.
explorer.thinned = (count, matter = []) => {
  if (count <= MOST_DRAWN) return Array.from({length: count}, (_, index) => index)
  const even = MOST_DRAWN - 41 * matter.length
  const found = Array.from({length: even}, (_, index) => Math.round(index * (count - 1) / (even - 1)))
  for (const one of matter) for (let near = one - 20; near <= one + 20; near++) if (near >= 0 && near < count) found.push(near)
  return [...new Set(found)].sort((a, b) => a - b)
}

// What a figure of curves shows. Each curve has x and points; `steps`: shade what is proved between the points as well,
// as δ does not rise with x. Nothing is drawn where a point is missing.
explorer.curves = (curves, steps) => {
  const drawn = {points: [], lines: [], bands: [], legend: []}
  for (const curve of curves) {
    const look = explorer.look(curve.look)
    drawn.legend.push([look, curve.name])
    // Lines break where a point is missing, and where δ is 0, which has no place on the axis.
    const [runs, path] = [[[]], []]
    let next = 0
    for (const at of explorer.thinned(curve.points.length)) {
      // A missing point that is not drawn is a gap too.
      if (curve.points.slice(next, at + 1).some((point) => Number.isNaN(point.upper))) {
        runs.push([])
        path.push({x: NaN, low: NaN, high: NaN})
      }
      next = at + 1
      const point = curve.points[at]
      if (Number.isNaN(point.upper) || !Number.isFinite(curve.x[at])) continue
      const one = {x: curve.x[at], low: log10(point.logLower), high: log10(point.logUpper)}
      runs.at(-1).push(one)
      path.push(one)
      drawn.points.push({
        ...look, x: one.x, y: one.high, size: 6, name: curve.name, key: at,
        lower: explorer.lowerText(point), upper: explorer.upperText(point), ...curve.tips(at),
      })
    }
    for (const side of ["high", "low"]) {
      drawn.lines.push({...look, xs: path.map((one) => one.x), ys: path.map((one) => one[side] === -Infinity ? NaN : one[side])})
    }
    for (const run of runs.filter((one) => one.length)) {
      const [top, bottom] = steps ? explorer.steps(run) : ["high", "low"].map((side) => run.map((one) => [one.x, one[side]]))
      const outline = [...top, ...bottom.reverse()]
      drawn.bands.push({...look, xs: outline.map(([x]) => x), ys: outline.map(([, y]) => y)})
    }
  }
  return drawn
}

// δ does not rise with ε: an upper bound holds to the right of its point, a lower one to the left.
explorer.steps = (run) => {
  const top = [], bottom = []
  run.forEach((point, index) => {
    if (index) { top.push([point.x, run[index - 1].high]); bottom.push([run[index - 1].x, point.low]) }
    top.push([point.x, point.high])
    bottom.push([point.x, point.low])
  })
  return [top, bottom]
}

// What the figure of noise settings shows: a bracket and a marker each.
explorer.brackets = (points, names) => {
  const drawn = {points: [], lines: [], bands: [], legend: []}
  names.forEach((name, code) => {
    const look = explorer.verdictLook(code)
    const some = points.filter((point) => point.verdict === code)
    if (some.length) drawn.legend.push([look, name])
    for (const point of some) {
      const [low, high] = [log10(point.logLower), log10(point.logUpper)]
      drawn.points.push({
        ...look, x: point.amount, y: code === 1 ? low : high, size: 7, key: point.cell, amount: explorer.plain(point.amount),
        lower: explorer.lowerText(point), upper: explorer.upperText(point), verdict: explorer.VERDICTS[code],
      })
      drawn.lines.push({xs: [point.amount, point.amount], ys: [low, high], colour: look.colour, dash: "solid"})
    }
  })
  return drawn
}
