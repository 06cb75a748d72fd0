// Where the numbers come from: a server's routes, or the tables in the page. Both answer in the same form.
const FIELDS = {delta_lower: "lower", delta_upper: "upper", log_delta_lower: "logLower", log_delta_upper: "logUpper"}
const bounds = (found) => Object.fromEntries(Object.entries(FIELDS).map(([name, field]) => [field, explorer.unpacked(found[name])]))
const pointAt = (arrays, at) => Object.fromEntries(Object.values(FIELDS).map((field) => [field, arrays[field][at]]))

explorer.Failure = class extends Error {}

explorer.VERDICTS = ["meets", "refuted", "undecided", "not computed"]
explorer.verdictOf = (point, delta) => {
  if (Number.isNaN(point.upper)) return 3
  if (point.upper <= delta) return 0
  // A lower bound that is not known refutes nothing: the comparison is false.
  return point.lower > delta ? 1 : 2
}

// What the bounds on settings, by increasing noise, prove at a target: as pbdist.query.noise_choices.
explorer.judged = (points, delta) => {
  const verdicts = points.map((point) => explorer.verdictOf(point, delta))
  const smallest = verdicts.indexOf(0)
  const refuted = (smallest < 0 ? verdicts : verdicts.slice(0, smallest)).lastIndexOf(1)
  const counts = explorer.VERDICTS.map((_, code) => verdicts.filter((one) => one === code).length)
  return {verdicts, smallest, refuted, counts}
}

// The bounds of some settings over r and ε.
class Tables {
  constructor({tables, settings}, index) {
    Object.assign(this, {settings, rounds: index.compositions.length, losses: index.epsilon.length})
    this.arrays = bounds(tables)
  }

  point(row, r, e) {
    return pointAt(this.arrays, (row * this.rounds + r) * this.losses + e)
  }

  // What is known of one setting; `over(r)` and `along(e)` are its points over all ε and over all r.
  answer(cell, row) {
    return {
      ...this.settings[row], cell, point: (r, e) => this.point(row, r, e),
      over: (r) => Array.from({length: this.losses}, (_, e) => this.point(row, r, e)),
      along: (e) => Array.from({length: this.rounds}, (_, r) => this.point(row, r, e)),
    }
  }
}

explorer.Served = class {
  constructor(index) { Object.assign(this, {index, latest: new Map()}) }

  async ask(name, query = {}) {
    const answer = await fetch(`${name}.json?${new URLSearchParams(query)}`, {credentials: "omit"}).catch(() => {
      throw new explorer.Failure("The server does not answer: is pbdist explore still running?")
    })
    const found = await answer.json()
    if (!answer.ok) throw new explorer.Failure(found.error)
    return found
  }

  async contents() {
    const found = await this.ask("contents")
    this.token = found.token
    return found
  }

  // The latest answers stay; one that has failed is requested again.
  remember(key, make) {
    if (!this.latest.has(key)) {
      if (this.latest.size > 40) this.latest.delete(this.latest.keys().next().value)
      const answer = make()
      answer.catch(() => this.latest.delete(key))
      this.latest.set(key, answer)
    }
    return this.latest.get(key)
  }

  cell(cell) {
    return this.remember(`cell ${cell}`, async () => new Tables(await this.ask("cell", {token: this.token, cell}), this.index).answer(cell, 0))
  }

  // The points of a group of settings, slice by slice, and the notices of the last one; null once `wanted(share)` is false.
  async group(group, r, e, wanted) {
    const key = `group ${group} ${r} ${e}`
    if (this.latest.has(key)) return this.latest.get(key)
    const cells = this.index.cells.subarray(this.index.offsets[group], this.index.offsets[group + 1])
    // Slices are in the order of the study, points in that of the group.
    const order = Uint32Array.from(cells.keys()).sort((a, b) => cells[a] - cells[b])
    const points = []
    let [read, done] = [null, 0]
    while (done < cells.length) {
      read = await this.ask("group", {token: this.token, group, compositions: r, epsilon: e, start: done})
      const arrays = bounds(read)
      for (let at = 0; at < arrays.upper.length; at++) points[order[done++]] = pointAt(arrays, at)
      if (!wanted(done / cells.length)) return null
    }
    return this.remember(key, async () => ({notices: read.notices, points}))
  }
}

explorer.Embedded = class {
  constructor(index, data) { Object.assign(this, {index, data}) }

  async contents() { return this.data.contents }

  get tables() { return (this.read ??= new Tables(this.data, this.index)) }

  async cell(cell) { return this.tables.answer(cell, this.index.place.get(cell)) }

  async group(group, r, e) {
    const [start, stop] = [this.index.offsets[group], this.index.offsets[group + 1]]
    return {notices: [], points: Array.from({length: stop - start}, (_, at) => this.tables.point(start + at, r, e))}
  }
}
