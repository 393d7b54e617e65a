import { iso } from "../../../kernel/clock.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { VERSION } from "../../../kernel/version.ts";
import type { Metadata } from "../../../protocol/chat-records.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { signatureHeaders } from "../../webhooks/signature.ts";
import { loopbackAllowed, refusalOf } from "../../webhooks/url-check.ts";
import type { Access } from "../access.ts";

/** What is asked about; whatever the backend leaves out stays as it was. */
type Content = { text?: string; metadata?: Metadata | null };
type Question = { type: "message.sending" | "message.editing"; access: Access; message: Record<string, unknown> };
type Verdict = { action: "allow" } | { action: "refuse"; reason?: string } | ({ action: "rewrite" } & Content);

const MAX_ANSWER_BYTES = 256 * 1024;
const MAX_REASON_LENGTH = 200;
/** More at once than that, and the backend is not the one that decides any more. */
const MAX_UNDER_WAY = 256;

export type PreSend = NonNullable<ReturnType<typeof createPreSend>>;

/**
 * Asks the developer's backend before a user's message is stored. Questions go out side by side, and what was sent to a
 * conversation is stored in the order in which it came; nobody waits for another conversation.
 */
export function createPreSend({ config, fetch, ids, log, metrics, now, timers }: Runtime) {
  const { CHAT_FILTER_URL: url, CHAT_FILTER_SECRET: secret, CHAT_FILTER_TIMEOUT_MS: timeoutMs } = config;
  if (url === undefined || secret === undefined) return null;
  const refusal = refusalOf(url, "DEVELOPMENT", config.WEBHOOK_ALLOW_PRIVATE, loopbackAllowed(config));
  if (refusal !== null) throw new Error(`CHAT_FILTER_URL ${refusal}.`);
  const verdicts = metrics.counter("stoa_chat_filter_total", "Answers of the pre-send hook", ["outcome"]);
  /** By conversation: resolves when what was sent before is on its way to the disk. */
  const tails = new Map<string, Promise<void>>();
  let underWay = 0;

  async function ask({ type, access, message }: Question): Promise<Verdict> {
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
      return verdictOf(await bounded(response));
    } finally {
      cancel();
    }
  }

  async function judge(question: Question): Promise<Verdict> {
    if (underWay >= MAX_UNDER_WAY) return unanswered("busy");
    underWay += 1;
    try {
      const verdict = await ask(question);
      verdicts.inc({ outcome: verdict.action });
      return verdict;
    } catch (error) {
      log.warn({ reason: (error as Error).name }, "the chat filter did not answer");
      return unanswered("unreachable");
    } finally {
      underWay -= 1;
    }
  }

  function unanswered(outcome: string): Verdict {
    verdicts.inc({ outcome });
    if (config.CHAT_FILTER_FAILURE === "open") return { action: "allow" };
    throw new ApiError("SVC_FILTER_UNAVAILABLE");
  }

  /** The content as the backend wants it; throws where it refuses. */
  function applied<Input extends Content>(verdict: Verdict, input: Input): Input {
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
    /** `store` gets what may be said, in the order of the sends to this conversation. */
    async through<Input extends Content, Result>(
      question: Question,
      input: Input,
      store: (checked: Input) => Promise<Result>,
    ): Promise<Result> {
      const { id } = question.access.conversation;
      const before = tails.get(id);
      const { promise: mine, resolve: release } = Promise.withResolvers<void>();
      tails.set(id, mine);
      try {
        const verdict = judge(question);
        // Whoever waits for the one before must not leave this one's refusal without anybody to hear it.
        verdict.catch(() => {});
        await before;
        const stored = store(applied(await verdict, input));
        release();
        return await stored;
      } finally {
        release();
        if (tails.get(id) === mine) tails.delete(id);
      }
    },
  };
}

async function bounded(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.byteLength;
    if (bytes > MAX_ANSWER_BYTES) {
      await reader.cancel();
      throw new Error("the answer is too large");
    }
    chunks.push(value);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function verdictOf(text: string): Verdict {
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
