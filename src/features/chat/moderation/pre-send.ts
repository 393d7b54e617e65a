import { boundedText } from "../../../kernel/net/checked-fetch.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { iso } from "../../../kernel/time/clock.ts";
import { VERSION } from "../../../kernel/version.ts";
import type { Metadata } from "../../../protocol/chat-records.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { signatureHeaders } from "../../webhooks/signature.ts";
import { loopbackAllowed, refusalOf } from "../../webhooks/url-check.ts";
import type { Access } from "../access.ts";

type Content = { text?: string; metadata?: Metadata | null };
type FilterRequest = { type: "message.sending" | "message.editing"; access: Access; message: Record<string, unknown> };
type Verdict = { action: "allow" } | { action: "refuse"; reason?: string } | ({ action: "rewrite" } & Content);

type PreSend = {
  /**
   * Calls `store` with the checked message, in the order of the sends to this conversation. `describe` returns null for
   * messages of the backend, which are not filtered.
   */
  run<Input extends Content, Result>(
    describe: () => FilterRequest | null,
    input: Input,
    store: (checked: Input) => Promise<Result>,
  ): Promise<Result>;
};

const WITHOUT_FILTER: PreSend = { run: (_describe, input, store) => store(input) };
const MAX_RESPONSE_BYTES = 256 * 1024;
const MAX_REASON_LENGTH = 200;
/** With more open requests than this, the filter counts as unavailable. */
const MAX_OPEN_REQUESTS = 256;

/**
 * Asks the developer's backend before a user's message is stored. Requests run in parallel, and the messages of one
 * conversation are stored in the order in which they arrived.
 */
export function createPreSend({ config, fetch, ids, log, metrics, now, timers }: Runtime): PreSend {
  const { CHAT_FILTER_URL: url, CHAT_FILTER_SECRET: secret, CHAT_FILTER_TIMEOUT_MS: timeoutMs } = config;
  if (url === undefined || secret === undefined) return WITHOUT_FILTER;
  const refusal = refusalOf(url, "DEVELOPMENT", config.WEBHOOK_ALLOW_PRIVATE, loopbackAllowed(config));
  if (refusal !== null) throw new Error(`CHAT_FILTER_URL ${refusal}.`);
  const verdicts = metrics.counter("stoa_chat_filter_total", "Responses of the pre-send filter by outcome", [
    "outcome",
  ]);
  /** By conversation: a promise that resolves when all earlier messages have been passed to the writer. */
  const tails = new Map<string, Promise<void>>();
  let openRequests = 0;

  async function request({ type, access, message }: FilterRequest): Promise<Verdict> {
    const { conversation, userId } = access;
    const { projectId, environment, publicId: conversationId, name: conversationName } = conversation;
    const id = ids.publicId("event");
    const data = { conversationId, conversationName, senderId: userId, message };
    const body = JSON.stringify({ id, type, projectId, environment, createdAt: iso(now()), data });
    const controller = new AbortController();
    const cancel = timers.after(timeoutMs, () => controller.abort());
    try {
      const response = await fetch(url ?? "", {
        method: "POST",
        headers: {
          ...signatureHeaders([secret ?? ""], id, body, now()),
          "content-type": "application/json",
          "user-agent": `Stoa-Filter/${VERSION}`,
        },
        body,
        redirect: "manual",
        signal: controller.signal,
      });
      if (response.status === 204) return { action: "allow" };
      if (response.status !== 200) throw new Error(`HTTP ${response.status}`);
      const text = await boundedText(response, MAX_RESPONSE_BYTES);
      if (text === null) throw new Error("the response is too large");
      return parseVerdict(text);
    } finally {
      cancel();
    }
  }

  async function judge(message: FilterRequest): Promise<Verdict> {
    if (openRequests >= MAX_OPEN_REQUESTS) return withoutVerdict("busy");
    openRequests += 1;
    try {
      const verdict = await request(message);
      verdicts.inc({ outcome: verdict.action });
      return verdict;
    } catch (error) {
      log.warn({ reason: (error as Error).name }, "chat: pre-send filter failed");
      return withoutVerdict("unreachable");
    } finally {
      openRequests -= 1;
    }
  }

  function withoutVerdict(outcome: string): Verdict {
    verdicts.inc({ outcome });
    if (config.CHAT_FILTER_FAILURE === "open") return { action: "allow" };
    throw new ApiError("SVC_FILTER_UNAVAILABLE");
  }

  /** Applies the filter's change to the message; throws if the filter rejected it. */
  function apply<Input extends Content>(verdict: Verdict, input: Input): Input {
    switch (verdict.action) {
      case "allow":
        return input;
      case "refuse":
        throw new ApiError("SVC_MESSAGE_REFUSED", verdict.reason);
      case "rewrite": {
        const { text = input.text, metadata = input.metadata } = verdict;
        return { ...input, text, ...(metadata === undefined ? {} : { metadata }) };
      }
    }
  }

  return {
    async run(describe, input, store) {
      const message = describe();
      if (message === null) return store(input);
      const { id } = message.access.conversation;
      const before = tails.get(id);
      const { promise: tail, resolve: release } = Promise.withResolvers<void>();
      tails.set(id, tail);
      try {
        const verdict = judge(message);
        // The request to the filter may fail while the earlier message is still pending.
        verdict.catch(() => {});
        await before;
        const stored = store(apply(await verdict, input));
        release();
        return await stored;
      } finally {
        release();
        if (tails.get(id) === tail) tails.delete(id);
      }
    },
  };
}

function parseVerdict(text: string): Verdict {
  const { action, reason, text: rewritten, metadata } = JSON.parse(text) as Record<string, unknown>;
  switch (action) {
    case "allow":
      return { action };
    case "refuse":
      return typeof reason === "string" && reason !== ""
        ? { action, reason: reason.slice(0, MAX_REASON_LENGTH) }
        : { action };
    case "rewrite": {
      if (rewritten !== undefined && typeof rewritten !== "string") throw new TypeError("text");
      if (metadata !== undefined && (typeof metadata !== "object" || Array.isArray(metadata))) {
        throw new TypeError("metadata");
      }
      return { action, text: rewritten, metadata: metadata as Metadata | null | undefined };
    }
    default:
      throw new TypeError("action");
  }
}
