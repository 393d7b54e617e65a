/** What all long work together gets of a turn of the loop. */
const TURN_MS = 1;

/** Work that says by `yield` where it can be left for a while. */
export type Pieces<Result> = Generator<void, Result, void>;

/** Runs such work to its end. */
export type InPieces = <Result>(work: Pieces<Result>) => Promise<Result>;

/**
 * Long work a piece at a time, and between the pieces whoever else has something to say. All of it shares one budget of a
 * turn, and takes turns within it: a hundred who ask for something long are not a hundred times as long.
 */
export function createInPieces(
  clock: () => number = () => performance.now(),
  afterTurn: (run: () => void) => unknown = setImmediate,
): InPieces {
  const waiting: { step(): boolean }[] = [];
  let scheduled = false;

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    afterTurn(turn);
  }

  function turn(): void {
    scheduled = false;
    const endsAt = clock() + TURN_MS;
    do {
      const next = waiting.shift();
      if (!next) return;
      if (!next.step()) waiting.push(next);
    } while (clock() < endsAt);
    if (waiting.length > 0) schedule();
  }

  return (work) =>
    new Promise((resolve, reject) => {
      const step = (): boolean => {
        try {
          const { done, value } = work.next();
          if (done) resolve(value);
          return done === true;
        } catch (error) {
          reject(error);
          return true;
        }
      };
      waiting.push({ step });
      schedule();
    });
}

/** Of this thread, whose loop there is one of. */
export const inPieces: InPieces = createInPieces();

/** JSON of an object, its fields one after the other down to so many levels. */
export function* writeJson(value: object, levels: number): Pieces<string> {
  const fields: string[] = [];
  for (const [name, one] of Object.entries(value)) {
    if (one === undefined) continue;
    const isObject = typeof one === "object" && one !== null && !Array.isArray(one);
    const text = isObject && levels > 1 ? yield* writeJson(one, levels - 1) : JSON.stringify(one);
    fields.push(`${JSON.stringify(name)}:${text}`);
    yield;
  }
  return `{${fields.join(",")}}`;
}
