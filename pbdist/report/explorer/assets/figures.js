// The figures, drawn by BokehJS: log10 δ on a linear axis, so that δ of 1e-300 and below have their place.
const MARKERS = ["circle", "square", "triangle", "diamond", "inverted_triangle", "hex"]
const DASHES = ["solid", "dashed", "dotted", "dotdash", "dashdot", "solid"]
const COLOURS = {
  light: ["#0b57b0", "#b34700", "#00714f", "#8a2d7a", "#6b5900", "#333333"],
  dark: ["#7fb4ff", "#ffb066", "#4fd1a5", "#f29be0", "#e6d35a", "#dddddd"],
}
//: Verdicts by marker, name and colour: meets, refuted, undecided.
const VERDICT_LOOKS = [
  {marker: "circle", light: "#0b57b0", dark: "#7fb4ff"},
  {marker: "x", light: "#9b1c1c", dark: "#ff8f8f"},
  {marker: "diamond", light: "#6b5900", dark: "#e6d35a"},
]
explorer.look = (index) => ({marker: MARKERS[index], dash: DASHES[index], colour: COLOURS[explorer.theme()][index]})
explorer.theme = () => matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"

//: So many points of a curve are drawn at most.
const MOST_DRAWN = 400
const log10 = (log) => log / Math.LN10
const finite = (values) => values.filter((value) => Number.isFinite(value))

explorer.Figure = class {
  constructor(name, options) {
    this.name = name
    this.options = options
    this.host = document.getElementById(name)
    this.ready = Promise.resolve()
  }

  colours() {
    const style = getComputedStyle(document.documentElement)
    return Object.fromEntries(["paper", "ink", "soft", "line"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]))
  }

  // Makes the figure anew: for a theme, or another kind of axis.
  async make(xType) {
    if (this.view) { this.view.remove(); this.host.replaceChildren() }
    this.xType = xType
    this.made = explorer.theme()
    const colours = this.colours()
    this.x = new Bokeh.Range1d({start: 1, end: 2})
    this.y = new Bokeh.Range1d({start: -1, end: 0})
    const figure = this.figure = Bokeh.Plotting.figure({
      x_range: this.x, y_range: this.y, x_axis_type: xType, height: 360, sizing_mode: "stretch_width", min_width: 240,
      output_backend: "svg", tools: "pan,box_zoom,wheel_zoom,reset", toolbar_location: "above", min_border_right: 12,
      background_fill_color: colours.paper, border_fill_color: colours.paper, outline_line_color: colours.line,
      x_axis_label: this.options.xLabel, y_axis_label: "δ",
    })
    // Dragging and scrolling over a figure move the page, unless a tool is chosen.
    figure.toolbar.active_scroll = null
    figure.toolbar.active_drag = null
    figure.toolbar.logo = null
    for (const axis of [...figure.xaxes, ...figure.yaxes]) {
      axis.setv({axis_label_text_color: colours.ink, major_label_text_color: colours.ink, axis_line_color: colours.soft,
        major_tick_line_color: colours.soft, minor_tick_line_color: colours.line})
    }
    figure.yaxes[0].formatter.doFormat = (ticks) => ticks.map(explorer.powerOfTen)
    figure.yaxes[0].ticker.num_minor_ticks = 0
    for (const grid of figure.center.filter((each) => each instanceof Bokeh.Grid)) grid.grid_line_color = colours.line
    this.sources = {}
    this.renderers = {}
    const source = (key, columns) => (this.sources[key] = new Bokeh.ColumnDataSource({data: Object.fromEntries(columns.map((column) => [column, []]))}))
    const field = (name) => ({field: name})
    this.renderers.bands = figure.patches({xs: field("xs"), ys: field("ys"), fill_color: field("colour"), fill_alpha: {value: 0.18}, line_color: {value: null},
      source: source("bands", ["xs", "ys", "colour"])})
    this.renderers.lines = figure.multi_line({xs: field("xs"), ys: field("ys"), line_color: field("colour"), line_dash: field("dash"), line_width: {value: 1.6},
      source: source("lines", ["xs", "ys", "colour", "dash", "name"])})
    this.renderers.target = figure.multi_line({xs: field("xs"), ys: field("ys"), line_color: {value: colours.ink}, line_dash: {value: "dotted"}, line_width: {value: 1.5},
      source: source("target", ["xs", "ys"])})
    this.renderers.points = figure.scatter({x: field("x"), y: field("y"), marker: field("marker"), size: field("size"), line_color: field("colour"),
      fill_color: field("fill"), line_width: {value: 1.5}, source: source("points", this.options.columns)})
    const hover = new Bokeh.HoverTool({renderers: [this.renderers.points], tooltips: this.options.tooltips, mode: "mouse"})
    const tap = new Bokeh.TapTool({renderers: [this.renderers.points]})
    figure.add_tools(hover, tap)
    this.renderers.points.nonselection_glyph = null
    this.renderers.points.selection_glyph = null
    this.sources.points.selected.properties.indices.change.connect(() => {
      const [index] = this.sources.points.selected.indices
      if (index !== undefined) this.options.chosen(this.sources.points.data.key[index])
    })
    const legend = this.legend = new Bokeh.Legend({
      items: [new Bokeh.LegendItem({label: {field: "name"}, renderers: [this.renderers.points]})],
      label_text_color: colours.ink, background_fill_color: colours.paper, background_fill_alpha: 0.8, border_line_color: colours.line,
      location: this.options.legend, label_text_font_size: "12px", padding: 6, spacing: 2,
    })
    figure.add_layout(legend)
    this.view = await Bokeh.Plotting.show(figure, this.host)
  }

  async show(wanted) {
    // One after the other, as a figure is not made twice at once; what is no longer wanted is not drawn.
    this.wanted = wanted
    this.ready = this.ready.then(async () => {
      if (this.wanted !== wanted) return
      const {xType, xLabel, points, lines, bands, target, reach} = wanted
      if (!this.view || this.xType !== xType || this.made !== explorer.theme()) await this.make(xType)
      this.figure.xaxes[0].axis_label = xLabel
      this.fit(xType, reach, finite([...points.y, ...points.lowest, target ?? NaN]))
      const bottom = this.y.start
      const down = (values) => values.map((value) => value === -Infinity ? bottom : value)
      const columns = this.options.columns
      this.sources.points.selected.indices = []
      this.sources.points.data = Object.fromEntries(columns.map((name) => [name, name === "y" ? down(points.y) : points[name]]))
      this.sources.lines.data = {...lines, ys: lines.ys.map(down)}
      this.sources.bands.data = {...bands, ys: bands.ys.map(down)}
      this.sources.target.data = target === null || target === undefined || !Number.isFinite(target)
        ? {xs: [], ys: []} : {xs: [[this.x.start, this.x.end]], ys: [[target, target]]}
      this.legend.visible = points.x.length > 0
      this.host.dataset.drawn = points.x.length
    })
    return this.ready
  }

  fit(xType, [low, high], ys) {
    const pad = (a, b, share) => (a === b ? 1 : (b - a) * share)
    let range
    if (xType === "log") {
      const widen = 10 ** (pad(Math.log10(low), Math.log10(high), 0.03))
      range = [low / widen, high * widen]
    } else range = [low - pad(low, high, 0.03), high + pad(low, high, 0.03)]
    this.x.setv({start: range[0], end: range[1], reset_start: range[0], reset_end: range[1]})
    const [least, most] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [-1, 0]
    const start = least - Math.max(pad(least, most, 0.06), 0.05)
    const end = most + Math.max(pad(least, most, 0.05), 0.03)
    this.y.setv({start, end, reset_start: start, reset_end: end})
  }

  async svg() {
    await this.ready
    if (!this.view || this.host.hidden) return null
    return this.view.export("svg", false).to_blob()
  }
}

// Evenly spaced indices, at most MOST_DRAWN, with the first and the last.
explorer.thinned = (count) => count <= MOST_DRAWN
  ? Array.from({length: count}, (_, index) => index)
  : [...new Set(Array.from({length: MOST_DRAWN}, (_, index) => Math.round(index * (count - 1) / (MOST_DRAWN - 1))))]

// What a figure of curves shows. Each curve has x and points; `steps`: shade what is proved between the points as well,
// as δ does not rise with x. Nothing is drawn where a point is missing.
explorer.curves = (curves, steps, columns) => {
  const points = Object.fromEntries(columns.map((name) => [name, []]))
  points.lowest = []
  const lines = {xs: [], ys: [], colour: [], dash: [], name: []}
  const bands = {xs: [], ys: [], colour: []}
  curves.forEach((curve) => {
    const look = explorer.look(curve.look)
    const runs = [[]]
    const missing = (at) => Number.isNaN(curve.points[at].upper)
    let next = 0
    for (const at of explorer.thinned(curve.points.length)) {
      // A missing point that is not drawn is a gap too.
      for (; next < at; next++) if (missing(next)) { runs.push([]); next = at; break }
      next = at + 1
      const point = curve.points[at]
      if (Number.isNaN(point.upper) || !Number.isFinite(curve.x[at])) { runs.push([]); continue }
      const low = Number.isNaN(point.logLower) ? -Infinity : log10(point.logLower)
      const high = log10(point.logUpper)
      runs[runs.length - 1].push({x: curve.x[at], low, high})
      const all = {
        x: curve.x[at], y: high, marker: look.marker, size: 6, colour: look.colour,
        fill: point.within === false ? "rgba(0,0,0,0)" : look.colour, name: curve.name, key: at,
        lower: explorer.lowerText(point), upper: explorer.upperText(point), ...curve.told(at),
      }
      for (const name of columns) points[name].push(all[name])
      points.lowest.push(low, high)
    }
    for (const run of runs.filter((one) => one.length)) {
      for (const side of ["high", "low"]) {
        // No line leads to a δ of 0, which has no place on the axis.
        for (const piece of explorer.pieces(run, (one) => one[side] !== -Infinity)) {
          lines.xs.push(piece.map((one) => one.x))
          lines.ys.push(piece.map((one) => one[side]))
          lines.colour.push(look.colour)
          lines.dash.push(look.dash)
          lines.name.push(curve.name)
        }
      }
      const [top, bottom] = steps ? explorer.steps(run) : [run.map((one) => [one.x, one.high]), run.map((one) => [one.x, one.low])]
      const outline = [...top, ...bottom.reverse()]
      bands.xs.push(outline.map(([x]) => x))
      bands.ys.push(outline.map(([, y]) => y))
      bands.colour.push(look.colour)
    }
  })
  return {points, lines, bands}
}

// The longest runs of neighbours that all have a property.
explorer.pieces = (all, has) => {
  const found = [[]]
  for (const one of all) has(one) ? found[found.length - 1].push(one) : found.push([])
  return found.filter((piece) => piece.length)
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
explorer.brackets = (found, names, columns) => {
  const points = Object.fromEntries(columns.map((name) => [name, []]))
  points.lowest = []
  const lines = {xs: [], ys: [], colour: [], dash: [], name: []}
  const order = [0, 1, 2]
  // By verdict, so that the legend names each once.
  for (const code of order) {
    const look = VERDICT_LOOKS[code]
    const colour = look[explorer.theme()]
    for (const point of found.points) {
      if (point.verdict !== code) continue
      const low = Number.isNaN(point.logLower) ? -Infinity : log10(point.logLower)
      const high = log10(point.logUpper)
      const all = {
        x: point.amount, y: code === 1 ? low : high, marker: look.marker, size: code === 1 ? 8 : 7, colour,
        fill: code === 0 ? colour : "rgba(0,0,0,0)", name: names[code], key: point.cell, amount: explorer.plain(point.amount),
        lower: explorer.lowerText(point), upper: explorer.upperText(point), verdict: explorer.VERDICTS[code],
      }
      for (const name of columns) points[name].push(all[name])
      points.lowest.push(low, high)
      lines.xs.push([point.amount, point.amount])
      lines.ys.push([low, high])
      lines.colour.push(colour)
      lines.dash.push("solid")
      lines.name.push(all.name)
    }
  }
  return {points, lines, bands: {xs: [], ys: [], colour: []}}
}
