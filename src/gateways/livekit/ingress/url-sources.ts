import { onLoopback } from "../../../features/egress/room-link.ts";
import { findFfmpeg } from "../../../features/recordings/composition/ffmpeg.ts";
import { loopbackAllowed, targetRule } from "../../../features/webhooks/url-check.ts";
import { allowedAddresses } from "../../../kernel/net/targets.ts";
import { type MediaProcess, startMediaProcess } from "../../../kernel/own-command.ts";
import { shareProblem } from "../../../kernel/project-share.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { SessionRegistry } from "../../signaling/rtc-session.ts";
import { refOf } from "../negotiation/negotiator.ts";
import { FETCHER_COMMAND, type FromFetcher, type ToFetcher } from "./fetcher/messages.ts";
import type { IngressRow } from "./ingress.store.ts";
import { type HandedOverUrl, type Ingresses, type Source, sectionsOf, UPGRADED } from "./ingresses.ts";

export type UrlSources = ReturnType<typeof createUrlSources>;

type Fetching = { process: MediaProcess<ToFetcher>; projectId: string; url: string; interrupt(): void };

const MAX_URL = 2_048;

/** Removes the query and credentials of URLs: queries contain credentials more often than names. */
export function withoutSecrets(text: string): string {
  const { protocol, host, pathname } = new URL(text);
  return `${protocol}//${host}${pathname}`;
}

/** URLs that processes of this server fetch into rooms. */
export function createUrlSources(
  runtime: Runtime,
  { ingresses, registry }: { ingresses: Ingresses; registry: SessionRegistry },
) {
  const { config, log, lookup, metrics } = runtime;
  const running = new Map<string, Fetching>();
  metrics.gaugeOf("stoa_ingress_urls_running", "URLs that are fetched into rooms at this moment", () => running.size);

  const allowsLoopbackIn = ({ environment }: Pick<Tenant, "environment">): boolean =>
    config.INGRESS_ALLOW_PRIVATE || (environment !== "PRODUCTION" && loopbackAllowed(config));

  async function negotiate(row: IngressRow, sdp: string, source: Source): Promise<string> {
    const session = ingresses.session(row.id);
    if (!session) {
      const client = { ipAddress: "127.0.0.1", userAgent: null, sdk: "url", openedAt: runtime.now() };
      const { sdp: answer, sessionId } = await ingresses.begin(row, sdp, client, source);
      return registry.session(sessionId)?.site.node.remote ? answer : onLoopback(answer);
    }
    const { node } = session.site;
    const publish = sectionsOf(sdp, row.settings);
    const { sdp: answer } = await node.negotiate({ ...refOf(session), sdp, subscribe: [], publish });
    return node.remote ? answer : onLoopback(answer);
  }

  const limits = { ofServer: config.INGRESS_MAX_RUNNING, ofProject: config.INGRESS_MAX_PER_PROJECT };
  const problemOf = (projectId: string): string | null =>
    shareProblem(projectId, running.values(), { ...limits, what: "URL ingresses" });

  return {
    async check(text: string, tenant: Tenant): Promise<void> {
      if (text.length > MAX_URL || !URL.canParse(text)) throw invalid("url", "is not a URL");
      const url = new URL(text);
      if (url.protocol !== "https:" && url.protocol !== "http:") throw invalid("url", "must begin with https://");
      if (url.username !== "" || url.password !== "") throw invalid("url", "must not contain a user name or password");
      const rule = targetRule(tenant.environment, config.INGRESS_ALLOW_PRIVATE, loopbackAllowed(config));
      const addresses = await allowedAddresses(url, rule, lookup).catch(() => []);
      if (addresses.length === 0)
        throw invalid("url", "points to a host that is not found, or not on the public internet");
      if (findFfmpeg() === null)
        throw new ApiError("SVC_COMPOSER_UNAVAILABLE", "URLs need ffmpeg, which is not installed here.");
      const full = problemOf(tenant.projectId);
      if (full !== null) throw new ApiError("SVC_RATE_LIMITED", full);
    },

    start(row: IngressRow, url: string): void {
      // Other sources may have been started since the check.
      const full = problemOf(row.projectId);
      if (full !== null) {
        ingresses.failed(row.id, full);
        return;
      }
      let outcome: Outcome = { status: "COMPLETE", error: "" };
      let isExpected = false;
      const child = startMediaProcess<ToFetcher, FromFetcher>(
        log,
        FETCHER_COMMAND,
        (message) => {
          if (message.type === "ended") {
            isExpected = true;
            if (message.error !== null) outcome = { status: "ERROR", error: message.error };
            return;
          }
          const { request } = message;
          negotiate(row, message.sdp, { outcome: () => outcome, stop: process.kill }).then(
            (sdp) => process.send({ type: "answer", request, sdp, error: null }),
            (error: Error) => process.send({ type: "answer", request, sdp: null, error: error.message }),
          );
        },
        (error) => {
          if (!running.delete(row.id)) return;
          if (!isExpected) outcome = { status: "ERROR", error: `The process that fetched it ended: ${error}` };
          if (ingresses.session(row.id)) ingresses.endSession(row.id);
          else if (outcome.status === "ERROR") ingresses.failed(row.id, outcome.error);
        },
      );
      const process: MediaProcess<ToFetcher> = {
        send: child.send,
        kill() {
          isExpected = true;
          child.kill();
        },
      };
      const interrupt = (): void => {
        outcome = { status: "ERROR", error: UPGRADED };
        running.delete(row.id);
        process.kill();
        if (ingresses.session(row.id)) ingresses.endSession(row.id);
        else ingresses.failed(row.id, UPGRADED);
      };
      running.set(row.id, { process, projectId: row.projectId, url, interrupt });
      const { audio, video } = row.settings;
      process.send({
        type: "start",
        ffmpeg: findFfmpeg() ?? "ffmpeg",
        url,
        audio,
        video,
        allowsLoopback: allowsLoopbackIn(row),
        allowsPrivate: config.INGRESS_ALLOW_PRIVATE,
      });
    },

    stop: (id: string): void => running.get(id)?.process.kill(),
    /** Ends all; a newer process of this server begins them again. */
    handOver(): HandedOverUrl[] {
      const urls = [...running].map(([id, { url }]) => ({ id, url }));
      for (const { interrupt } of [...running.values()]) interrupt();
      return urls;
    },

    stopAll(): void {
      for (const { process } of running.values()) process.kill();
    },
  };
}

type Outcome = Pick<IngressRow, "status" | "error">;
