import { boundedText, checkedFetch, codeOrNameOf } from "../../../kernel/net/checked-fetch.ts";
import type { Target } from "../../../kernel/net/targets.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { isMatrixServerName } from "../../../protocol/ids.ts";

const TIMEOUT_MS = 5_000;
const MAX_BODY_BYTES = 64 * 1_024;
const FEDERATION_PORT = 8448;
const DELAYED_EVENTS = "_matrix/client/unstable/org.matrix.msc4140/delayed_events";

export type DelayedEventAction = "restart" | "send";
export type Homeservers = ReturnType<typeof createHomeservers>;

type Answer = { status: number; json: Record<string, unknown> };

/** Requests to Matrix homeservers, whose names come from users. `allows` decides for each name which addresses it may resolve to. */
export function createHomeservers(
  runtime: Pick<Runtime, "fetch" | "lookup" | "timers" | "log">,
  allows: (serverName: string) => (target: Target) => boolean,
) {
  const { timers, log } = runtime;

  async function request(serverName: string, method: "GET" | "POST", url: string): Promise<Answer | null> {
    const controller = new AbortController();
    const cancelTimeout = timers.after(TIMEOUT_MS, () => controller.abort());
    try {
      const response = await checkedFetch(runtime, url, {
        method,
        allows: allows(serverName),
        signal: controller.signal,
        headers: { accept: "application/json", ...(method === "POST" && { "content-type": "application/json" }) },
        ...(method === "POST" && { body: "{}" }),
      });
      return { status: response.status, json: await jsonOf(response) };
    } catch (error) {
      log.debug({ serverName, reason: codeOrNameOf(error) }, "matrix: homeserver unreachable");
      return null;
    } finally {
      cancelTimeout();
    }
  }

  async function wellKnown(serverName: string, name: "server" | "client"): Promise<Record<string, unknown>> {
    const answer = await request(serverName, "GET", `https://${serverName}/.well-known/matrix/${name}`);
    return answer?.status === 200 ? answer.json : {};
  }

  /** The base URL of the federation API: the name itself if it has a port, otherwise the server to which its host delegates. */
  async function federationUrl(serverName: string): Promise<string> {
    if (hasPort(serverName)) return `https://${serverName}`;
    const delegated = (await wellKnown(serverName, "server"))["m.server"];
    const name = typeof delegated === "string" && isMatrixServerName(delegated) ? delegated : serverName;
    return `https://${name}${hasPort(name) ? "" : `:${FEDERATION_PORT}`}`;
  }

  async function clientUrl(serverName: string): Promise<string> {
    const homeserver = (await wellKnown(serverName, "client"))["m.homeserver"] as { base_url?: unknown } | undefined;
    const base = homeserver?.base_url;
    const isUsable = typeof base === "string" && URL.canParse(base) && new URL(base).protocol === "https:";
    return (isUsable ? base : `https://${serverName}`).replace(/\/+$/, "");
  }

  return {
    /** The Matrix id of the user to whom the homeserver issued this OpenID token; null if the homeserver does not confirm it. */
    async userOf(serverName: string, accessToken: string): Promise<string | null> {
      const base = await federationUrl(serverName);
      const query = new URLSearchParams({ access_token: accessToken });
      const answer = await request(serverName, "GET", `${base}/_matrix/federation/v1/openid/userinfo?${query}`);
      const { sub } = answer?.status === 200 ? answer.json : {};
      // A homeserver speaks for its own users only.
      return typeof sub === "string" && sub.startsWith("@") && sub.endsWith(`:${serverName}`) ? sub : null;
    },

    /** Returns `gone` when the homeserver has no such event, because it was sent or cancelled. */
    async actOnDelayedEvent(
      serverName: string,
      delayId: string,
      action: DelayedEventAction,
    ): Promise<"done" | "gone" | "failed"> {
      const base = await clientUrl(serverName);
      const answer = await request(
        serverName,
        "POST",
        `${base}/${DELAYED_EVENTS}/${encodeURIComponent(delayId)}/${action}`,
      );
      if (answer?.status === 404) return "gone";
      return answer !== null && answer.status >= 200 && answer.status < 300 ? "done" : "failed";
    },
  };
}

const hasPort = (serverName: string): boolean => /:\d+$/.test(serverName.replace(/^\[.*\]/, "x"));

async function jsonOf(response: Response): Promise<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse((await boundedText(response, MAX_BODY_BYTES)) ?? "{}");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
