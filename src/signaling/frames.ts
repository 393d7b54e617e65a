import type { TSchema } from "@sinclair/typebox";
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { parseJson } from "../kernel/json.ts";
import { type ClientFrame, ClientFrames } from "../protocol/signaling.ts";
import type { FrameErrorCode } from "./session/refusal.ts";

export type ReadFrame =
  | { kind: "frame"; frame: ClientFrame }
  /** Readable, but not what the protocol says: an `error`, no more. */
  | { kind: "invalid"; id: string | undefined; code: FrameErrorCode; message: string }
  /** Not a frame at all; the third of a connection closes it. */
  | { kind: "malformed"; message: string };

const CHECKS: ReadonlyMap<string, TypeCheck<TSchema>> = new Map(
  Object.entries(ClientFrames).map(([type, schema]) => [type, TypeCompiler.Compile(schema as TSchema)]),
);

/** Never throws, whatever was sent. `text` is null for a binary frame. */
export function readFrame(text: string | null): ReadFrame {
  if (text === null) return { kind: "malformed", message: "Send text frames." };
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    return { kind: "malformed", message: "The frame is not JSON." };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { kind: "malformed", message: "The frame is not a JSON object." };
  }
  const { type, id } = value as { type?: unknown; id?: unknown };
  if (typeof type !== "string") return { kind: "malformed", message: "The frame has no type." };
  const known = { id: typeof id === "string" && id.length >= 1 && id.length <= 64 ? id : undefined };
  const check = CHECKS.get(type);
  if (!check)
    return { kind: "invalid", ...known, code: "UNKNOWN_TYPE", message: `No frame is called ${quoted(type)}.` };
  if (check.Check(value)) return { kind: "frame", frame: value as ClientFrame };
  const problem = check.Errors(value).First();
  const message = problem
    ? `${problem.path.slice(1).replaceAll("/", ".") || "frame"}: ${problem.message}`
    : "not valid";
  return { kind: "invalid", ...known, code: "INVALID_MESSAGE", message };
}

/** What a client sent is shown back to it shortened: no frame makes us send a larger one. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}
