import { type EventLoop, FairQueue } from "./fair-queue.ts";

const SLICE_MS = 1;

/** Long work that yields at every point where it can be interrupted. */
export type CooperativeTask<Result> = Generator<void, Result, void>;

type RunCooperatively = <Result>(task: CooperativeTask<Result>) => Promise<Result>;

/** All tasks share one time slice: a hundred long requests do not delay others a hundredfold. */
export function createRunCooperatively(loop: EventLoop = {}): RunCooperatively {
  const queue = new FairQueue({ sliceMs: SLICE_MS, ...loop });
  return (task) =>
    new Promise((resolve, reject) => {
      queue.add({
        runNext() {
          try {
            const { done, value } = task.next();
            if (done) resolve(value);
            return !done;
          } catch (error) {
            reject(error);
            return false;
          }
        },
      });
    });
}

/** Shares this thread's event loop with all other work. */
export const runCooperatively: RunCooperatively = createRunCooperatively();

/** `JSON.stringify` of an object, interrupted after each field down to the given level. */
export function* stringifyCooperatively(value: object, levels: number): CooperativeTask<string> {
  const fields: string[] = [];
  for (const [name, field] of Object.entries(value)) {
    if (field === undefined) continue;
    const isObject = typeof field === "object" && field !== null && !Array.isArray(field);
    const text = isObject && levels > 1 ? yield* stringifyCooperatively(field, levels - 1) : JSON.stringify(field);
    fields.push(`${JSON.stringify(name)}:${text}`);
    yield;
  }
  return `{${fields.join(",")}}`;
}
