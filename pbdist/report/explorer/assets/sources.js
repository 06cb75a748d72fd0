// Where the numbers come from: a server's routes, or the table in the page. Both answer in the same shapes.
const FIELDS = {delta_lower: "lower", delta_upper: "upper", log_delta_lower: "logLower", log_delta_upper: "logUpper"}

explorer.Failure = class extends Error {}

// Bounds along one axis, as an array of points.
explorer.pointsOf = (answer) => {
  const columns = Object.entries(FIELDS).map(([name, field]) => [field, explorer.unpacked(answer[name])])
  const within = answer.within === null || answer.within === undefined ? null : explorer.unpacked(answer.within)
  return Array.from(columns[0][1], (_, index) => {
    const point = Object.fromEntries(columns.map(([field, values]) => [field, values[index]]))
    point.within = within === null ? null : within[index] === 1
    return point
  })
}

explorer.VERDICTS = ["meets", "refuted", "undecided", "not computed"]
explorer.verdictOf = (point, delta) => {
  if (Number.isNaN(point.upper)) return 3
  if (point.upper <= delta) return 0
  // A lower bound that is not known refutes nothing: the comparison is false.
  return point.lower > delta ? 1 : 2
}

// What verdicts on settings, by increasing noise, prove: as pbdist.query.noise_choice.
explorer.certificate = (verdicts) => {
  const smallest = verdicts.indexOf(0)
  const refuted = (smallest < 0 ? verdicts : verdicts.slice(0, smallest)).lastIndexOf(1)
  const counts = explorer.VERDICTS.map((_, code) => verdicts.filter((one) => one === code).length)
  return {smallest: smallest < 0 ? null : smallest, refuted: refuted < 0 ? null : refuted, counts}
}

explorer.Served = class {
  constructor() { this.kept = new Map() }

  async ask(name, asked = {}) {
    const answer = await fetch(`${name}.json?${new URLSearchParams(asked)}`, {credentials: "omit"}).catch(() => {
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

  // `axis` is "compositions" (then all ε are answered) or "epsilon" (all r); `at` is its index.
  bounds(cell, axis, at) {
    const key = `${cell} ${axis} ${at}`
    if (!this.kept.has(key)) {
      if (this.kept.size > 200) this.kept.delete(this.kept.keys().next().value)
      const answer = this.ask("bounds", {token: this.token, cell, [axis]: at})
        .then((found) => ({...found, points: explorer.pointsOf(found)}))
      answer.catch(() => this.kept.delete(key))
      this.kept.set(key, answer)
    }
    return this.kept.get(key)
  }

  progress(r, e) { return this.ask("progress", {token: this.token, compositions: r, epsilon: e}) }

  async verdicts(group, r, e, delta) {
    const found = await this.ask("verdicts", {token: this.token, group, compositions: r, epsilon: e, delta})
    if ("progress" in found) return found
    const [positions, cells, amounts, codes] = ["positions", "cells", "amounts", "verdicts"].map((name) => explorer.unpacked(found[name]))
    const points = explorer.pointsOf(found)
    points.forEach((point, index) => Object.assign(point, {
      position: positions[index], cell: cells[index], amount: amounts[index], verdict: codes[index],
    }))
    return {...found, points}
  }
}

explorer.Embedded = class {
  constructor(data) {
    this.data = data
    this.table = Object.entries(FIELDS).map(([name, field]) => [field, explorer.unpacked(data.tables[name])])
    this.within = explorer.unpacked(data.tables.within)
    this.order = explorer.unpacked(data.contents.cells)
    this.amounts = explorer.unpacked(data.contents.amounts)
    this.offsets = explorer.unpacked(data.contents.offsets)
    this.rows = new Map(Array.from(this.order, (cell, row) => [cell, row]))
    this.rounds = data.contents.compositions.length
    this.losses = explorer.unpacked(data.contents.epsilon).length
  }

  contents() { return Promise.resolve(this.data.contents) }

  point(row, r, e) {
    const at = (row * this.rounds + r) * this.losses + e
    const point = Object.fromEntries(this.table.map(([field, values]) => [field, values[at]]))
    point.within = this.data.settings[row].judged ? this.within[at] === 1 : null
    return point
  }

  bounds(cell, axis, at) {
    const row = this.rows.get(cell)
    const told = this.data.settings[row]
    const points = axis === "compositions"
      ? Array.from({length: this.losses}, (_, e) => this.point(row, at, e))
      : Array.from({length: this.rounds}, (_, r) => this.point(row, r, at))
    return Promise.resolve({cell, setting: told.setting, command: told.command, gaps: told.gaps, points})
  }

  progress() { return Promise.resolve({progress: 1, notices: []}) }

  verdicts(group, r, e, delta) {
    const [start, stop] = [this.offsets[group], this.offsets[group + 1]]
    const points = Array.from({length: stop - start}, (_, index) => {
      const point = this.point(start + index, r, e)
      const verdict = explorer.verdictOf(point, delta)
      return {...point, position: index, cell: this.order[start + index], amount: this.amounts[start + index], verdict}
    })
    return Promise.resolve({...explorer.certificate(points.map((point) => point.verdict)), points, of: points.length})
  }
}
