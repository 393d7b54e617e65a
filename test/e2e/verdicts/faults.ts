/** For every cause of a bad call the real thing: a bad line, a slow computer, a camera that is gone, a firewall, a busy server. */
import { readFileSync, rmSync } from "node:fs";
import { $ } from "bun";
import type { VerdictCause } from "../../../src/protocol/room-records.ts";
import type { Condition } from "../networks/link.ts";
import type { Video } from "./page.ts";
import { overload, slowDown } from "./quota.ts";
import { type Place, processesOf, type TroubledCall, type VerdictStage, type Wishes } from "./stage.ts";

const USUAL: Condition = { delayMs: 15 };
/** In two sizes: what is narrow takes the larger one away. */
const SMALL: Video = { width: 320, height: 180, framesPerSecond: 12 };
/** The share of one processor that each call gets. */
const SLOW_PERCENTS = [25, 35, 18, 50] as const;
type Ways = { up?: Condition; down?: Condition };

export type Fault = {
  cause: VerdictCause;
  /** The line of every call. */
  line?: Ways;
  /** The line becomes so when the calls are on: how long the way is without it is known by then. */
  lineWorsens?: true;
  /** Pictures that nothing is said of are tiny: most faults show with any. */
  wishes?: Wishes;
  /** Afterwards the place needs another browser. */
  spoils?: true;
  /** The maximum number of simultaneous calls: more would keep the machine busy before the fault begins. */
  most?: number;
  /** All participants feel it, or it takes the whole machine: nothing else runs beside it. */
  alone?: true;
  /** Once the calls are on; the answer ends the trouble. */
  strike?(stage: VerdictStage, place: Place, calls: readonly TroubledCall[]): Promise<() => unknown>;
};

/** Faults that take the longest come first. */
export const FAULTS: readonly Fault[] = [
  { cause: "none", wishes: { video: SMALL, nearVideo: SMALL } },
  {
    cause: "uplink_narrow",
    line: { up: { ...USUAL, rateKbit: 180, bufferMs: 1_000, perFlow: true } },
    lineWorsens: true,
    // The size of usual cameras: for a small video, encoders report no limitation however little they may send.
    wishes: { video: { width: 640, height: 360, framesPerSecond: 8 } },
  },
  {
    cause: "downlink_narrow",
    line: { down: { ...USUAL, rateKbit: 150, bufferMs: 2_000, perFlow: true } },
    wishes: { nearVideo: SMALL },
  },
  { cause: "uplink_loss", line: { up: { ...USUAL, loss: 0.15 } } },
  { cause: "downlink_loss", line: { down: { ...USUAL, loss: 0.15 } } },
  { cause: "high_rtt", line: { up: { delayMs: 350 }, down: { delayMs: 350 } } },
  { cause: "relayed", line: { up: { delayMs: 350 }, down: { delayMs: 350 } }, wishes: { relayOnly: true } },
  {
    cause: "device",
    wishes: { video: "camera" },
    spoils: true,
    async strike(_stage, { machine, cameraFile }) {
      // The effect of a cable that is pulled out: open devices end, and none can be opened.
      rmSync(cameraFile);
      for (const pid of await processesOf(machine)) {
        const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        if (command.includes("video_capture.mojom")) process.kill(pid, "SIGKILL");
      }
      return () => {};
    },
  },
  {
    cause: "reconnects",
    async strike({ serverPort }, { machine }, calls) {
      const broken = `tcp dport ${serverPort} reject with tcp reset`;
      for (let time = 0; time < 3; time++) {
        const before = await Promise.all(calls.map(({ far }) => far.evaluate(() => window.call.states.length)));
        await firewall(machine, broken);
        await everyFar(calls, before, "RECONNECTING");
        await firewall(machine);
        await everyFar(calls, before, "CONNECTED");
      }
      return () => {};
    },
  },
  {
    cause: "media_stalled",
    async strike(_stage, { machine }) {
      // Checks and handshakes get through, packets of audio and video do not.
      await firewall(machine, "meta l4proto udp @th,64,8 >= 128 drop");
      return () => firewall(machine);
    },
  },
  {
    cause: "publisher_cpu",
    alone: true,
    most: 3,
    wishes: { video: { width: 1280, height: 720, framesPerSecond: 30 } },
    async strike(_stage, { machine }, calls) {
      const [first, ...others] = SLOW_PERCENTS.map((percent) => percent * calls.length) as [number, ...number[]];
      const slow = () => Promise.all(calls.map(({ far }) => far.evaluate(() => window.call.slowSeconds())));
      let before = await slow();
      return slowDown(await processesOf(machine), [first, ...others], async () => {
        const [now, since] = [await slow().catch(() => before), before];
        before = now;
        return now.every((seconds, n) => seconds > (since[n] ?? 0));
      });
    },
  },
  {
    cause: "server_overload",
    alone: true,
    // Packets enough that some of them always wait.
    wishes: { video: SMALL, nearVideo: SMALL },
    strike: async ({ server }) => overload(await processesOf(server)),
  },
];

/** Resolves when each has been in this state since it was last looked at. */
async function everyFar(calls: readonly TroubledCall[], before: readonly number[], state: string): Promise<void> {
  const since = (known: { from: number; state: string }) => window.call.states.slice(known.from).includes(known.state);
  await Promise.all(calls.map(({ far }, n) => far.waitForFunction(since, { from: before[n] ?? 0, state })));
}

/** The firewall rules for packets that may not leave the machine; without rules, all may. */
async function firewall({ prefix }: Place["machine"], ...rules: string[]): Promise<void> {
  const table = "add table inet fault; delete table inet fault;";
  const chain = "add table inet fault; add chain inet fault out { type filter hook output priority 0; };";
  const lines = rules.map((rule) => `add rule inet fault out ${rule};`).join(" ");
  await $`${prefix} nft ${rules.length === 0 ? table : `${table} ${chain} ${lines}`}`.quiet();
}

export function lineOf(fault: Fault): Required<Ways> {
  return { up: USUAL, down: USUAL, ...fault.line };
}

/** Removes the effects of all faults. */
export async function clear({ machine, link }: Place): Promise<void> {
  link.set({ up: USUAL, down: USUAL });
  await firewall(machine);
}
