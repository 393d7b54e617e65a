import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { DelayedEventAction, Homeservers } from "./homeserver.ts";

/** The limit equals that of participants; a further delayed leave is refused. */
const MAX_LEAVES = 20_000;
const MAX_WAIT_MS = 3_600_000;
const RETRY_MS = 1_000;
/** After this share of the delay, the homeserver is asked to restart it. */
const RESTART_AFTER = 0.8;

type DelayedLeave = Tenant & {
  roomName: string;
  identity: string;
  serverName: string;
  delayId: string;
  delayMs: number;
};

type Job = { leave: DelayedLeave; isPresent: boolean; cancel: () => void };

/**
 * Leave events that homeservers send when a delay ends (MSC4140). The delay starts over while the participant is in the
 * room, and its event is sent at once when the participant leaves. After a restart of this server the delays end by
 * themselves.
 */
export function createDelayedLeaves(
  { bus, now, timers, log }: Pick<Runtime, "bus" | "now" | "timers" | "log">,
  { homeservers, isPresent }: { homeservers: Homeservers; isPresent: (leave: DelayedLeave) => boolean },
) {
  const jobs = new Map<string, Job>();

  const keyOf = ({
    projectId,
    environment,
    roomName,
    identity,
  }: Omit<DelayedLeave, "serverName" | "delayId" | "delayMs">) =>
    JSON.stringify([projectId, environment, roomName, identity]);

  function end(key: string, job: Job): void {
    job.cancel();
    if (jobs.get(key) === job) jobs.delete(key);
  }

  const act = ({ serverName, delayId }: DelayedLeave, action: DelayedEventAction) =>
    homeservers.actOnDelayedEvent(serverName, delayId, action);

  async function restart(key: string, job: Job): Promise<void> {
    const outcome = await act(job.leave, "restart");
    if (jobs.get(key) !== job || !job.isPresent) return;
    if (outcome === "gone") return end(key, job);
    const wait = outcome === "done" ? job.leave.delayMs * RESTART_AFTER : RETRY_MS;
    job.cancel = timers.after(wait, () => void restart(key, job));
  }

  async function send(job: Job): Promise<void> {
    const deadline = now() + job.leave.delayMs;
    if ((await act(job.leave, "send")) !== "failed") return;
    // After the deadline the homeserver has sent the event by itself.
    if (now() + RETRY_MS < deadline)
      timers.after(RETRY_MS, () => void send({ ...job, leave: until(job.leave, deadline) }));
    else log.warn({ serverName: job.leave.serverName }, "matrix: delayed leave not sent");
  }

  const until = (leave: DelayedLeave, deadline: number): DelayedLeave => ({ ...leave, delayMs: deadline - now() });

  function arrived(key: string, job: Job): void {
    if (job.isPresent) return;
    job.isPresent = true;
    job.cancel();
    void restart(key, job);
  }

  bus.on("rtcConnection", ["started", "left"], ({ participantIdentity: identity, ...event }) => {
    const key = keyOf({ ...event, identity });
    const job = jobs.get(key);
    if (!job) return;
    if (event.type === "started") arrived(key, job);
    // A client that is replaced, or that moves to the next server, is still in the call.
    else if (event.reason !== "replaced" && event.reason !== "restart") {
      end(key, job);
      void send(job);
    }
  });

  return {
    /** Takes over the leave event of a participant, in place of an earlier one. Returns false when there are too many. */
    add(leave: DelayedLeave): boolean {
      const key = keyOf(leave);
      const former = jobs.get(key);
      if (!former && jobs.size >= MAX_LEAVES) return false;
      former?.cancel();
      const job: Job = { leave, isPresent: false, cancel: () => {} };
      jobs.set(key, job);
      job.cancel = timers.after(Math.min(leave.delayMs, MAX_WAIT_MS), () => end(key, job));
      if (isPresent(leave)) arrived(key, job);
      return true;
    },
  };
}
