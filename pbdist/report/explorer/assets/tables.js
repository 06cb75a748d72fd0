// Tables and files. All text of a store becomes text of an element, never markup.
explorer.element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value)
    else if (value !== null && value !== undefined) made.setAttribute(key, value)
  }
  made.append(...children.map((child) => child instanceof Node ? child : document.createTextNode(String(child))))
  return made
}

explorer.fillTable = (table, caption, heads, rows) => {
  const cell = (kind, content, number, scope) => explorer.element(kind, {class: number ? "number" : null, scope}, ...[content].flat())
  table.replaceChildren(
    explorer.element("caption", {}, caption),
    explorer.element("thead", {}, explorer.element("tr", {}, ...heads.map(([text, number]) => cell("th", text, number, "col")))),
    explorer.element("tbody", {}, ...rows.map((row) => explorer.element("tr", {},
      ...row.map((content, index) => index ? cell("td", content, heads[index][1]) : cell("th", content, heads[0][1], "row"))))),
  )
}

explorer.svgElement = (name, attributes) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  return made
}

// The marker and the dash of a curve, beside its name.
const DASH_ARRAYS = {solid: "none", dashed: "6 3", dotted: "2 4", dotdash: "2 4 6 4", dashdot: "6 4 2 4"}
const SHAPES = {
  circle: "M12.5 7a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", square: "M13 3h8v8h-8z", triangle: "M17 2l5 9h-10z", diamond: "M17 1l5 6l-5 6l-5-6z",
  inverted_triangle: "M12 3h10l-5 9z", hex: "M14.5 2.5h5l2.5 4.5l-2.5 4.5h-5l-2.5-4.5z", x: "M13 3l8 8m0-8l-8 8",
}
explorer.key = ({marker, dash, colour, fill}) => {
  const svg = explorer.svgElement("svg", {width: 34, height: 14, class: "key", "aria-hidden": "true"})
  if (dash) svg.append(explorer.svgElement("line", {x1: 0, y1: 7, x2: 34, y2: 7, stroke: colour, "stroke-width": 2, "stroke-dasharray": DASH_ARRAYS[dash]}))
  if (marker) svg.append(explorer.svgElement("path", {d: SHAPES[marker], stroke: colour, "stroke-width": 1.5, fill}))
  return svg
}

// A cell of a CSV file. Text that a spreadsheet would take for a formula gets a quotation mark before it.
explorer.csvCell = (value) => {
  if (typeof value === "number") return Number.isNaN(value) ? "" : value === Infinity ? "inf" : value === -Infinity ? "-inf" : String(value)
  const text = value === null || value === undefined ? "" : String(value)
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?[0-9]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe
}
explorer.csv = (heads, rows) => [heads, ...rows].map((row) => row.map(explorer.csvCell).join(",")).join("\r\n") + "\r\n"

explorer.BOUND_HEADS = ["delta_lower [1]", "delta_upper [1]", "log_delta_lower [nats]", "log_delta_upper [nats]"]
explorer.boundCells = ({lower, upper, logLower, logUpper}) => [[lower, false], [upper, true], [logLower, false], [logUpper, true]]
  .map(([value, up]) => Number.isFinite(value) ? explorer.whole(value, up) : value)

explorer.download = (name, blob) => {
  const address = URL.createObjectURL(blob)
  explorer.element("a", {href: address, download: name}).click()
  setTimeout(() => URL.revokeObjectURL(address), 10_000)
}

explorer.copied = async (text, said) => {
  try {
    await navigator.clipboard.writeText(text)
    said("Copied.")
  } catch {
    said("This browser does not let a page copy: select the text and copy it.")
  }
}
