import { type Measured, median } from "../harness/report.ts";

/** The JSON that one bench has printed. */
export type Run = { bench: string; figures: Measured[] };
export type BenchResult = { bench: string; runs: number; figures: Measured[] };

/** The figures of the first run with the median of all runs; a bench says the same things in the same order each time. */
export function medianOf(runs: readonly Run[]): Measured[] {
  const [first] = runs;
  return (first?.figures ?? []).map((figure, index) => {
    const values = runs.map((run) => run.figures[index]?.value).filter((value) => value !== undefined);
    return { ...figure, value: Number(median(values).toPrecision(4)) };
  });
}
