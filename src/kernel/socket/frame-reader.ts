import type { Static, TObject } from "@sinclair/typebox";
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { parseJson } from "../json.ts";
import { nearest } from "../nearest-name.ts";
import { describeProblem, fieldOf } from "../schema-problems.ts";
import type { Now } from "../time/clock.ts";
import { FrameError, frameError } from "./frame-error.ts";

/** Why a socket is closed; each protocol has its own close code for each reason. */
export type FrameAbuse = "tooLarge" | "tooMany" | "malformed";

export type FrameReading<Frame> =
  | { kind: "frame"; frame: Frame }
  /** Answered with an `error`; the socket stays open. */
  | { kind: "refused"; error: FrameError; id: string | undefined }
  /** Answered with an `error`, then closed. */
  | { kind: "abuse"; abuse: FrameAbuse; error: FrameError; id: string | undefined };

type FrameLimits = { now: Now; maxBytes: number; framesPerWindow: number; windowSeconds: number };

const MALFORMED_FRAMES = 3;

/** Reads the frames of one socket and checks their size, the socket's budget and the protocol. */
export function createFrameReader<Frame extends { id?: string }>(
  decode: FrameDecoder<Frame>,
  { now, maxBytes, framesPerWindow, windowSeconds }: FrameLimits,
): (text: string | null, bytes: number) => FrameReading<Frame> {
  const spend = createFrameBudget(now, framesPerWindow, windowSeconds);
  let malformed = 0;

  return (text, bytes) => {
    if (bytes > maxBytes) {
      const error = frameError("SVC_PAYLOAD_TOO_LARGE", `A frame may have ${maxBytes} bytes.`);
      return { kind: "abuse", abuse: "tooLarge", error, id: undefined };
    }
    const verdict = spend();
    // The budget is checked before parsing, so that a flood of frames is not parsed.
    if (verdict.kind === "flood") {
      return { kind: "abuse", abuse: "tooMany", error: frameError("SVC_RATE_LIMITED"), id: undefined };
    }
    const decoded = decode(text);
    if (verdict.kind === "over") {
      const error = frameError("SVC_RATE_LIMITED", "Too many frames. Try again later.", verdict.retryAfterSeconds);
      return { kind: "refused", error, id: idOf(decoded) };
    }
    switch (decoded.kind) {
      case "frame":
        return decoded;
      case "invalid":
        return { kind: "refused", error: decoded.error, id: decoded.id };
      case "malformed":
        malformed += 1;
        return malformed < MALFORMED_FRAMES
          ? { kind: "refused", error: decoded.error, id: undefined }
          : { kind: "abuse", abuse: "malformed", error: decoded.error, id: undefined };
    }
  };
}

function idOf(decoded: ReturnType<FrameDecoder<{ id?: string }>>): string | undefined {
  switch (decoded.kind) {
    case "frame":
      return decoded.frame.id;
    case "invalid":
      return decoded.id;
    case "malformed":
      return undefined;
  }
}

/** Frames over the budget are rejected; after this many rejections in one window the socket is closed. */
const FLOOD_FRAMES = 100;

type Verdict = { kind: "ok" } | { kind: "over"; retryAfterSeconds: number } | { kind: "flood" };

// A shared object, because nearly every frame is accepted.
const OK: Verdict = { kind: "ok" };

/** The frames of one socket in a fixed window that starts with its first frame; a large frame may count as several. */
export function createFrameBudget(now: Now, limit: number, windowSeconds: number): (cost?: number) => Verdict {
  const windowMs = windowSeconds * 1000;
  let count = 0;
  let endsAt = 0;
  return (cost = 1) => {
    const at = now();
    // A window that ends later than one window length from now means that the clock was set back.
    if (at >= endsAt || endsAt > at + windowMs) {
      count = 0;
      endsAt = at + windowMs;
    }
    count += cost;
    if (count <= limit) return OK;
    if (count >= limit + FLOOD_FRAMES) return { kind: "flood" };
    return { kind: "over", retryAfterSeconds: Math.max(1, Math.ceil((endsAt - at) / 1000)) };
  };
}

type FrameSchemas = Record<string, TObject>;
type FrameOf<Schemas extends FrameSchemas> = { [Type in keyof Schemas]: Static<Schemas[Type]> }[keyof Schemas];

type Decoded<Frame> =
  | { kind: "frame"; frame: Frame }
  /** A frame that violates its schema: answered with an `error`. */
  | { kind: "invalid"; error: FrameError; id: string | undefined }
  /** The message is not a frame; several of them close the socket. */
  | { kind: "malformed"; error: FrameError };

export type FrameDecoder<Frame> = (text: string | null) => Decoded<Frame>;

/**
 * Checks frames against their schemas. Each schema is compiled with the first frame of its type, which keeps the start
 * fast. The decoder never throws; `text` is null for a binary frame.
 */
export function createFrameDecoder<Schemas extends FrameSchemas>(schemas: Schemas): FrameDecoder<FrameOf<Schemas>> {
  const schemaOf: ReadonlyMap<string, TObject> = new Map(Object.entries(schemas));
  const checks = new Map<string, TypeCheck<TObject>>();
  const checkOf = (type: string): TypeCheck<TObject> | undefined => {
    const schema = schemaOf.get(type);
    const check = checks.get(type) ?? (schema && TypeCompiler.Compile(schema));
    if (check) checks.set(type, check);
    return check;
  };

  return (text) => {
    if (text === null) return malformed("A frame is text.");
    const value = parsed(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return malformed("A frame is one JSON object.");
    }
    const { type, id } = value as { type?: unknown; id?: unknown };
    if (typeof type !== "string") return malformed("A frame has a string `type`.");
    const validId = typeof id === "string" && id.length >= 1 && id.length <= 64 ? id : undefined;
    const check = checkOf(type);
    if (!check) {
      return {
        kind: "invalid",
        error: new FrameError(
          "UNKNOWN_TYPE",
          `No frame is called ${quoted(type)}.${suggestion(type, schemaOf.keys())}`,
        ),
        id: validId,
      };
    }
    if (check.Check(value)) return { kind: "frame", frame: value as FrameOf<Schemas> };
    const problem = check.Errors(value).First();
    const message = problem ? `${fieldOf(problem) || "frame"}: ${describeProblem(problem)}` : "frame: is not valid";
    return { kind: "invalid", error: frameError("SVC_VALIDATION_FAILED", message), id: validId };
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

const MAX_QUOTED = 40;
const MAX_EDITS = 2;

/** The text is shortened, so that no frame makes the server send a larger one. */
function quoted(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text);
}

/** No type is longer than what is quoted, and comparing a longer one would take its time. */
function suggestion(type: string, known: Iterable<string>): string {
  const best = type.length > MAX_QUOTED ? undefined : nearest(type, known);
  return best === undefined || best.distance > MAX_EDITS ? "" : ` Did you mean "${best.name}"?`;
}
