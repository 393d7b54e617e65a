import { createContext, Script } from "node:vm";
import { HeaderInserter } from "../../../src/network/tls/header-inserter.ts";

const NO_PROGRESS_MS = 2_000;
const context = createContext({ task: null as (() => void) | null });
const script = new Script("task()");

/** The bytes that are forwarded of these pieces. A parser that makes no progress fails the test instead of hanging it. */
export function pass(mark: string, pieces: readonly Buffer[]): { text: string; marks: HeaderInserter } {
  const marks = new HeaderInserter(mark);
  let text = "";
  context.task = () => {
    for (const piece of pieces) text += marks.pass(piece).toString("latin1");
  };
  script.runInContext(context, { timeout: NO_PROGRESS_MS });
  return { text, marks };
}

/** The same bytes in pieces, cut at these places. */
export function cutAt(text: string, places: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text, "latin1");
  const ends = [...new Set(places.map((place) => place % bytes.length))].sort((a, b) => a - b);
  return [0, ...ends].map((start, index) => bytes.subarray(start, ends[index]));
}

export function cutEvery(text: string, pieceBytes: number): Buffer[] {
  const places = Array.from({ length: Math.ceil(text.length / pieceBytes) }, (_none, index) => index * pieceBytes);
  return cutAt(text, places);
}
