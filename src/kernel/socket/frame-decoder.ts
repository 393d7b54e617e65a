import type { Static, TObject } from "@sinclair/typebox";
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { parseJson } from "../json.ts";
import { FrameError, frameError } from "./frame-error.ts";

/** The frames of a protocol by their `type`. */
type FrameSchemas = Record<string, TObject>;
type FrameOf<Schemas extends FrameSchemas> = { [Type in keyof Schemas]: Static<Schemas[Type]> }[keyof Schemas];

export type Decoded<Frame> =
  | { kind: "frame"; frame: Frame }
  /** A frame, but not as the protocol says: an `error`, no more. */
  | { kind: "invalid"; error: FrameError; id: string | undefined }
  /** No frame at all: some of them close the socket. */
  | { kind: "malformed"; error: FrameError };

export type FrameDecoder<Frame> = (text: string | null) => Decoded<Frame>;

/** Reads frames against their schemas, compiled once. Never throws, whatever was sent; `text` is null for a binary frame. */
export function createFrameDecoder<Schemas extends FrameSchemas>(schemas: Schemas): FrameDecoder<FrameOf<Schemas>> {
  const checks: ReadonlyMap<string, TypeCheck<TObject>> = new Map(
    Object.entries(schemas).map(([type, schema]) => [type, TypeCompiler.Compile(schema)]),
  );

  return (text) => {
    if (text === null) return malformed("A frame is text.");
    const value = parsed(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return malformed("A frame is one JSON object.");
    }
    const { type, id } = value as { type?: unknown; id?: unknown };
    if (typeof type !== "string") return malformed("A frame has a string `type`.");
    const known = typeof id === "string" && id.length >= 1 && id.length <= 64 ? id : undefined;
    const check = checks.get(type);
    if (!check) {
      return {
        kind: "invalid",
        error: new FrameError("UNKNOWN_TYPE", `No frame is called ${quoted(type)}.`),
        id: known,
      };
    }
    if (check.Check(value)) return { kind: "frame", frame: value as FrameOf<Schemas> };
    const problem = check.Errors(value).First();
    const field = problem?.path.slice(1).replaceAll("/", ".") || "frame";
    const message = `${field}: ${problem?.message ?? "is not valid"}`;
    return { kind: "invalid", error: frameError("SVC_VALIDATION_FAILED", message), id: known };
  };
}

function malformed(message: string): Decoded<never> {
  return { kind: "malformed", error: new FrameError("INVALID_MESSAGE", message) };
}

function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return null;
  }
}

/** What a client sent is shown back to it shortened: no frame makes us send a larger one. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}
