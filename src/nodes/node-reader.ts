/** Validates messages of a media node on another machine against the protocol, and removes unknown fields. */
import type { TSchema } from "@sinclair/typebox";
import { type TypeCheck, TypeCompiler } from "@sinclair/typebox/compiler";
import { Value } from "@sinclair/typebox/value";
import {
  NODE_EVENTS,
  NODE_FRAMES,
  NODE_RESPONSES,
  type NodeEvent,
  type NodeFrame,
} from "../protocol/media/node-messages.ts";
import type { MediaMethod, MediaResponse } from "../protocol/media-node.ts";
import { NODE_FRAME_MAX_BYTES } from "./remote-protocol.ts";

export const MALFORMED = Symbol("malformed");

export type NodeReader = ReturnType<typeof createNodeReader>;

/** Never throws. Each schema is compiled on the first message of its type. */
export function createNodeReader() {
  const checks = new Map<TSchema, TypeCheck<TSchema>>();

  function read(schema: TSchema | undefined, value: unknown): unknown {
    if (!schema) return MALFORMED;
    const check = checks.get(schema) ?? TypeCompiler.Compile(schema);
    checks.set(schema, check);
    return check.Check(value) ? Value.Clean(schema, value) : MALFORMED;
  }

  /** Selects the schema by the value's `type`; inherited properties are ignored. */
  function readTyped(schemas: Record<string, TSchema>, value: unknown): unknown {
    const { type } = (value ?? {}) as { type?: unknown };
    return typeof type === "string" && Object.hasOwn(schemas, type) ? read(schemas[type], value) : MALFORMED;
  }

  return {
    frame(data: unknown): NodeFrame | typeof MALFORMED {
      if (typeof data !== "string" || data.length > NODE_FRAME_MAX_BYTES) return MALFORMED;
      try {
        return readTyped(NODE_FRAMES, JSON.parse(data)) as NodeFrame | typeof MALFORMED;
      } catch {
        return MALFORMED;
      }
    },

    event: (value: unknown) => readTyped(NODE_EVENTS, value) as NodeEvent | typeof MALFORMED,

    answer<M extends MediaMethod>(method: M, value: unknown): MediaResponse<M> | typeof MALFORMED {
      const answers: Partial<Record<MediaMethod, TSchema>> = NODE_RESPONSES;
      const schema = answers[method];
      return (schema ? read(schema, value) : undefined) as MediaResponse<M> | typeof MALFORMED;
    },
  };
}
