/**
 * Deeper than any legitimate body. The JavaScript engine takes seconds to fail on a value that is nested 100,000 levels
 * deep.
 */
const MAX_JSON_DEPTH = 128;

/** More values than any legitimate body has: a mebibyte of empty lists takes a tenth of a second to parse. */
const MAX_JSON_VALUES = 20_000;

/**
 * `JSON.parse` for untrusted text; also throws a SyntaxError for text that is nested too deeply or has too many values.
 */
export function parseJson(text: string): unknown {
  const problem = jsonProblem(text);
  if (problem !== null) throw new SyntaxError(problem);
  return JSON.parse(text);
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;

/** Counts brackets and commas outside of strings without parsing. Null when the text may be parsed. */
export function jsonProblem(text: string): string | null {
  if (text.length <= MAX_JSON_DEPTH) return null;
  let depth = 0;
  let values = 1;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === BACKSLASH) i++;
      else if (code === QUOTE) inString = false;
    } else if (code === QUOTE) inString = true;
    // `[` and `{`, `]` and `}` differ by the same bit.
    else if ((code | 0x20) === 0x7b) {
      if (++depth > MAX_JSON_DEPTH) return `is nested deeper than ${MAX_JSON_DEPTH} levels`;
    } else if ((code | 0x20) === 0x7d) depth--;
    else if (code === COMMA && ++values > MAX_JSON_VALUES) return `has more than ${MAX_JSON_VALUES} values`;
  }
  return null;
}
