"use strict"
// Numbers: packed arrays, bounds as text rounded outwards, powers of ten.
// `index` is what a page knows of its store, `state` what is chosen.
const explorer = {index: {}, state: null}

explorer.unpacked = (packed) => {
  // Arrays are little-endian, as every machine is that runs a browser today.
  const [kind, text] = Object.entries(packed)[0]
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0))
  const kinds = {f8: Float64Array, u4: Uint32Array, u1: Uint8Array}
  return new kinds[kind](bytes.buffer)
}

explorer.DIGITS = 6
// An upper bound below this is stored as this, as pbdist/pld/engine.py says; the logarithm tells more.
explorer.SMALLEST = 2.3e-308

// The number d.ddd * 10^exponent of some digits, as Python prints it: fixed from 1e-3 on, scientific below.
explorer.decimalText = (digits, exponent, exact) => {
  if (exponent < -3) return `${digits[0]}.${digits.slice(1)}e${exponent}`
  let text = exponent >= digits.length - 1
    ? digits + "0".repeat(exponent - digits.length + 1)
    : exponent >= 0
      ? `${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`
      : `0.${"0".repeat(-exponent - 1)}${digits}`
  if (exact && text.includes(".")) text = text.replace(/\.?0+$/, "")
  return text
}

explorer.oneMore = (digits, exponent) => {
  const next = String(BigInt(digits) + 1n)
  return next.length > digits.length ? [next.slice(0, -1), exponent + 1] : [next, exponent]
}

// A float from 0 to infinity as a decimal of few digits that is not below it (up), or not above it.
// 101 digits tell whether anything is cut off: no float lies closer to a decimal of 18 digits without being one.
explorer.rounded = (value, up, count = explorer.DIGITS) => {
  if (!Number.isFinite(value)) return String(value)
  if (value === 0) return "0"
  const [mantissa, power] = value.toExponential(100).split("e")
  const all = mantissa.replace(".", "")
  let digits = all.slice(0, count)
  let exponent = Number(power)
  const exact = /^0*$/.test(all.slice(count))
  if (up && !exact) [digits, exponent] = explorer.oneMore(digits, exponent)
  return explorer.decimalText(digits, exponent, exact)
}

// All digits of a float: a decimal that reads back as it, and is not below it (up), or not above it.
explorer.whole = (value, up) => {
  if (value < 0) return `-${explorer.whole(-value, !up)}`
  // The shortest decimal that reads back, where it lies on that side.
  const [[short, power], [exact, place]] = [value.toExponential(), value.toExponential(100)].map((text) => text.replace(".", "").split("e"))
  const [above, equal] = [power !== place || short > exact, power === place && short.padEnd(101, "0") === exact]
  return equal || above === up ? String(value) : explorer.rounded(value, up, 18)
}

// The same of e^log, for what float64 cannot hold; the slack is larger than the error of log10 and of the power.
explorer.roundedPower = (log, up) => {
  const tens = log / Math.LN10
  let exponent = Math.floor(tens)
  // tens may be wrong by a unit only far beyond this.
  if (tens < -1e9) return `1.00000e${up ? exponent + 2 : exponent - 1}`
  const slack = (Math.abs(tens) + 10) * 4e-15
  let scaled = 10 ** (tens - exponent) * (1 + (up ? slack : -slack)) * 10 ** (explorer.DIGITS - 1)
  if (scaled < 10 ** (explorer.DIGITS - 1)) { scaled *= 10; exponent -= 1 }
  let digits = String(up ? Math.floor(scaled) + 1 : Math.ceil(scaled) - 1)
  if (digits.length > explorer.DIGITS) { digits = "1" + "0".repeat(explorer.DIGITS - 1); exponent += 1 }
  if (digits.length < explorer.DIGITS) { digits = "9".repeat(explorer.DIGITS); exponent -= 1 }
  return explorer.decimalText(digits, exponent, false)
}

explorer.boundText = (value, log, up) => {
  if (Number.isNaN(value)) return up ? "not computed" : "not known"
  if (value > explorer.SMALLEST || log === -Infinity || Number.isNaN(log)) return explorer.rounded(value, up)
  return explorer.roundedPower(log, up)
}
explorer.lowerText = (point) => Number.isNaN(point.upper) ? "not computed" : explorer.boundText(point.lower, point.logLower, false)
explorer.upperText = (point) => explorer.boundText(point.upper, point.logUpper, true)

const SUPERSCRIPTS = {"-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹"}
explorer.powerOfTen = (exponent) => {
  const whole = Math.round(exponent)
  const raised = (power) => `10${[...String(power)].map((sign) => SUPERSCRIPTS[sign]).join("")}`
  if (Math.abs(exponent - whole) < 1e-9) return whole === 0 ? "1" : raised(whole)
  const floor = Math.floor(exponent)
  return `${(10 ** (exponent - floor)).toPrecision(2)}·${raised(floor)}`
}

// The shortest text of a number, which is read back exactly.
explorer.shortest = (value) => [String(value), value.toExponential().replace("e+", "e")].sort((a, b) => a.length - b.length)[0]
// Noise, ε and δ as they are: rounded down, they would be less noise, and a smaller ε, than the bounds are proved for.
explorer.plain = (value) => Math.abs(value) < 1e-3 ? explorer.shortest(value) : String(value)
// The same in 6 digits, where there is no room for more.
explorer.brief = (value) => explorer.plain(Number(value.toPrecision(explorer.DIGITS)))
explorer.grouped = (text) => text.replace(/\B(?=(\d{3})+$)/g, ",")
