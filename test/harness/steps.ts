/** Counts lookups in maps and sets and elements of arrays that are iterated or copied while `work` runs: a measure of work without a clock. */
export function countSteps(work: () => void): number {
  let steps = 0;
  const restore: (() => void)[] = [];
  const count = <Owner extends object>(owner: Owner, name: keyof Owner) => {
    const original = owner[name] as (...args: unknown[]) => unknown;
    owner[name] = function (this: unknown, ...args: unknown[]) {
      steps++;
      return original.apply(this, args);
    } as Owner[keyof Owner];
    restore.push(() => {
      owner[name] = original as Owner[keyof Owner];
    });
  };
  count(Map.prototype, "get");
  count(Map.prototype, "has");
  count(Set.prototype, "has");
  const iterate = Array.prototype[Symbol.iterator];
  Array.prototype[Symbol.iterator] = function* <T>(this: T[]) {
    for (let i = 0; i < this.length; i++) {
      steps++;
      yield this[i] as T;
    }
  } as typeof iterate;
  restore.push(() => {
    Array.prototype[Symbol.iterator] = iterate;
  });
  try {
    work();
  } finally {
    for (const one of restore) one();
  }
  return steps;
}
