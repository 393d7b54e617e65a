import { expect, test } from "bun:test";
import { indexEntry } from "../../../src/features/chat/search/search-words.ts";

const CONVERSATION = "01990000-0000-7000-8000-0123456789ab";
const wordsOf = (text: string) =>
  indexEntry(CONVERSATION, text)
    .text.split(" ")
    .filter((word) => word !== "")
    .map((word) => word.slice(12));

/** The words of a text that is split whole. */
function atOnce(text: string): string[] {
  const spelledOut = text.toLowerCase().normalize("NFKD").slice(0, 12_800);
  const folded = spelledOut.replace(/[\u0300-\u036f\ufe00-\ufe0f]/g, "").normalize("NFKC");
  const byItself =
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{So}]/gu;
  return (folded.replace(byItself, " $& ").match(/[\p{L}\p{N}\p{M}\p{So}]+/gu) ?? []).slice(0, 4096);
}

/** Characters that become others, become many, or become one with their neighbours. */
const ODD = [
  ..."abcß Σσς İı ﬁ ǆ é Å ñ",
  ...["e\u0301", "o\u0302\u0301", "\u0301", "\u0345", "\u0f71", "\u0327\u0301", "\ufe0f"],
  ...["\u1100", "\u1161", "\u11a8", "가", "각", "ㄱ", "ㅏ", "ㅋ", "\uffa1", "\uffc2", "㉠", "\ua960", "\ud7b0"],
  ...["か\u3099", "ｶﾞ", "\uff9e", "ﾊﾟ", "会", "議", "ก็", "ำ", "ລາວ", "က္"],
  ...[
    "\uFDFA",
    "\uFDFB",
    "½",
    "⑩",
    "㌖",
    "👍🏽",
    "👨‍👩‍👧",
    "𝒳",
    "\ud83d",
    "\udc4d",
    "𐐀",
    "ক্ষো",
    "\u09be",
    "க்",
    "\u0dcf",
  ],
  ...[" ", "  ", "-", ".", "\n", "\u00a0", "\u200d", "1", "٣", "_"],
];

/** The same numbers every time. */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test("[18] splitting a long text in chunks finds the same words as splitting it whole", () => {
  const next = numbersFrom(17);
  for (let run = 0; run < 400; run++) {
    // Few kinds in a text, so that each meets its like where a piece ends.
    const kinds = Array.from({ length: 1 + Math.floor(next() * 8) }, () => ODD[Math.floor(next() * ODD.length)] ?? "a");
    let text = "";
    while (text.length < 200 + next() * 1_500) {
      const one = kinds[Math.floor(next() * kinds.length)] ?? "a";
      // A run of hundreds of accents is no real text and may be cut anywhere.
      text += /^\p{M}/u.test(one) ? `a${one}` : one;
    }
    text = text.toWellFormed();
    expect({ text, words: wordsOf(text) }).toEqual({ text, words: atOnce(text) });
  }
});

test("[18] a word as long as a message is one word, and what Unicode normalization makes of one character is bounded", () => {
  expect(wordsOf("x".repeat(4_000))).toEqual(["x".repeat(4_000)]);
  expect(wordsOf("\u0301".repeat(4_000))).toEqual([]);
  expect(wordsOf(`${"\u0301".repeat(4_000)}end`)).toEqual(["end"]);
  expect(wordsOf("\uFDFA".repeat(4_000))).toEqual(atOnce("\uFDFA".repeat(4_000)));
  expect(wordsOf("界".repeat(4_300))).toHaveLength(4_096);
});

test("[18] the fast path for ASCII finds the same words", () => {
  const every = Array.from({ length: 128 }, (_, code) => `${String.fromCharCode(code)}Ab9`).join("");
  for (const text of ["", "re-send IT", every.slice(0, 256), every.slice(256), every]) {
    expect(wordsOf(text)).toEqual(atOnce(text));
  }
});
