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

// The marker and the dash of a curve, beside its name.
explorer.key = (index) => {
  const look = explorer.look(index)
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
  const add = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name)
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
    svg.append(made)
  }
  for (const [key, value] of Object.entries({width: 34, height: 14, class: "key", "aria-hidden": "true"})) svg.setAttribute(key, value)
  const dashes = {solid: "", dashed: "6 3", dotted: "2 4", dotdash: "2 4 6 4", dashdot: "6 4 2 4"}
  add("line", {x1: 0, y1: 7, x2: 34, y2: 7, stroke: look.colour, "stroke-width": 2, "stroke-dasharray": dashes[look.dash]})
  const shapes = {
    square: "13,3 21,3 21,11 13,11", triangle: "17,2 22,11 12,11", diamond: "17,1 22,7 17,13 12,7",
    inverted_triangle: "12,3 22,3 17,12", hex: "14.5,2.5 19.5,2.5 22,7 19.5,11.5 14.5,11.5 12,7",
  }
  if (look.marker === "circle") add("circle", {cx: 17, cy: 7, r: 4.5, fill: look.colour})
  else add("polygon", {points: shapes[look.marker], fill: look.colour})
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
explorer.boundCells = (point) => [point.lower, point.upper, point.logLower, point.logUpper]

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
