/** Deeper than any honest body. The engine needs seconds to find out that it cannot write a value nested 100,000 deep. */
export const MAX_JSON_DEPTH = 128;

/** `JSON.parse` for what strangers send; throws a SyntaxError also for what is nested too deeply. */
export function parseJson(text: string): unknown {
  if (isTooDeep(text)) throw new SyntaxError(`nested deeper than ${MAX_JSON_DEPTH}`);
  return JSON.parse(text);
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Counts brackets outside of strings, without building anything. */
export function isTooDeep(text: string): boolean {
  if (text.length <= MAX_JSON_DEPTH) return false;
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === BACKSLASH) i++;
      else if (code === QUOTE) inString = false;
    } else if (code === QUOTE) inString = true;
    // `[` and `{`, `]` and `}` differ by the same bit.
    else if ((code | 0x20) === 0x7b) {
      if (++depth > MAX_JSON_DEPTH) return true;
    } else if ((code | 0x20) === 0x7d) depth--;
  }
  return false;
}
