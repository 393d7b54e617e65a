/** Does it flow? Frames counted in a page over a while, and how much of a standstill the page or the sender explains. */

const SAMPLE_MS = 60;
/** A standstill worth noting; below, it is the rhythm of frames and samples. */
const PAUSE_MS = 250;
/** What arrives after a standstill of the sender or the machine takes a moment to be shown. */
const CATCH_UP_MS = 300;

/** By the machine's clock, which all pages share. */
export type Interval = { fromMs: number; toMs: number };

export type Flow = Interval & {
  frames: number;
  /** Without a new frame. */
  pauses: Interval[];
  /** The page itself was not run: nothing can be said of the network meanwhile. */
  stalls: Interval[];
};

/** Runs in a page: samples a counter of frames until it is stopped. */
export function watchFlow(read: () => Promise<number>): () => Flow {
  const clock = () => performance.timeOrigin + performance.now();
  const flow: Flow = { fromMs: clock(), toMs: 0, frames: 0, pauses: [], stalls: [] };
  let last = { atMs: flow.fromMs, frames: -1 };
  let grewMs = flow.fromMs;
  let first = -1;
  let stopped = false;
  const note = (list: Interval[], fromMs: number, toMs: number) => {
    if (toMs - fromMs > PAUSE_MS) list.push({ fromMs, toMs });
  };
  const sample = async () => {
    while (!stopped) {
      const frames = await read();
      const atMs = clock();
      note(flow.stalls, last.atMs, atMs);
      if (first < 0) first = frames;
      if (frames > last.frames) {
        note(flow.pauses, grewMs, atMs);
        grewMs = atMs;
      }
      last = { atMs, frames: Math.max(frames, last.frames) };
      await new Promise((wake) => setTimeout(wake, SAMPLE_MS));
    }
  };
  void sample();
  return () => {
    stopped = true;
    note(flow.pauses, grewMs, last.atMs);
    return { ...flow, toMs: last.atMs, frames: last.frames - first };
  };
}

const length = ({ fromMs, toMs }: Interval) => toMs - fromMs;

export function longest(intervals: readonly Interval[]): number {
  return Math.round(Math.max(0, ...intervals.map(length)));
}

/**
 * The longest standstill of a viewer that neither its own page nor the sender explains, in milliseconds: what network and
 * server are to blame for. Encoders and pages stand still when a machine has too much to do.
 */
export function frozenMs(viewer: Flow, sender: Flow): number {
  const causes = [...viewer.stalls, ...sender.stalls, ...sender.pauses].sort((a, b) => a.fromMs - b.fromMs);
  const unexplained = viewer.pauses.map((pause) => {
    let explainedMs = 0;
    let coveredMs = pause.fromMs;
    for (const { fromMs, toMs } of causes) {
      const from = Math.max(fromMs, coveredMs);
      const to = Math.min(toMs + CATCH_UP_MS, pause.toMs);
      if (to <= from) continue;
      explainedMs += to - from;
      coveredMs = to;
    }
    return length(pause) - explainedMs;
  });
  return Math.round(Math.max(0, ...unexplained));
}

/** How long the machine kept both ends from doing anything, in all. */
export function stalledMs(...flows: Flow[]): number {
  return Math.round(flows.flatMap(({ stalls }) => stalls).reduce((sum, stall) => sum + length(stall), 0));
}

export function describeFlow(viewer: Flow, sender: Flow): string {
  const seconds = (viewer.toMs - viewer.fromMs) / 1_000;
  return `${viewer.frames} frames in ${seconds.toFixed(1)} s, longest standstill ${longest(viewer.pauses)} ms, of which ${frozenMs(viewer, sender)} ms not the sender's (${longest(sender.pauses)} ms) or a busy machine's (${longest([...viewer.stalls, ...sender.stalls])} ms)`;
}
