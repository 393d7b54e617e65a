/** Measures interruptions of a video, and which of them the page or the sender explains. */

const SAMPLE_MS = 60;
/** Shorter interruptions come from the interval of frames and samples. */
const PAUSE_MS = 250;
/** How long frames take to appear after an interruption of the sender or the machine. */
const CATCH_UP_MS = 300;

/** Times of the machine's clock, which all pages share. */
export type Interval = { fromMs: number; toMs: number };

export type Flow = Interval & {
  frames: number;
  /** The intervals without a new frame. */
  pauses: Interval[];
  /** The intervals in which the page did not run, which say nothing about the network. */
  stalls: Interval[];
};

/** Runs in a page and samples a frame counter until it is stopped. */
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
 * The longest interruption of a viewer in milliseconds that neither its page nor the sender explains, so that the network
 * or the server caused it. Encoders and pages stop on an overloaded machine.
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

/** The total time in which the machine did not run the pages. */
export function stalledMs(...flows: Flow[]): number {
  return Math.round(flows.flatMap(({ stalls }) => stalls).reduce((sum, stall) => sum + length(stall), 0));
}

export function describeFlow(viewer: Flow, sender: Flow): string {
  const seconds = (viewer.toMs - viewer.fromMs) / 1_000;
  return `${viewer.frames} frames in ${seconds.toFixed(1)} s, longest standstill ${longest(viewer.pauses)} ms, of which ${frozenMs(viewer, sender)} ms not the sender's (${longest(sender.pauses)} ms) or a busy machine's (${longest([...viewer.stalls, ...sender.stalls])} ms)`;
}
