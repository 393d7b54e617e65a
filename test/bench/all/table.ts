import { goalText, isMet, type Measured } from "../harness/report.ts";
import type { Machine } from "./machine.ts";
import type { BenchResult } from "./median.ts";

/** Everything that was measured. */
export function markdownOf(machine: Machine, results: readonly BenchResult[]): string {
  return [
    about(machine),
    ...results.flatMap(({ bench, runs, figures }) => [
      "",
      `### ${bench} (${runs} ${runs === 1 ? "run" : "runs"})`,
      "",
      ...rowsOf(figures),
    ]),
    "",
  ].join("\n");
}

/** The guide on figures shows what has a goal, in one table. */
export function withFigures(guide: string, machine: Machine, results: readonly BenchResult[]): string {
  const rows = results.flatMap(({ bench, runs, figures }) =>
    figures.filter(({ goal }) => goal !== undefined).map((figure) => [`\`${bench}\``, runs, ...cellsOf(figure)]),
  );
  const table = [
    "| bench | runs | | measured | goal | |",
    "| --- | ---: | --- | ---: | --- | --- |",
    ...rows.map((row) => `| ${row.join(" | ")} |`),
  ];
  return guide.replace(
    /(<!-- figures -->\n)[\s\S]*?(<!-- \/figures -->)/,
    (_, start, end) => `${start}${about(machine)}\n\n${table.join("\n")}\n${end}`,
  );
}

function about({ processor, cores, memoryGb, system, versions }: Machine): string {
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return `${cores} cores${processor === null ? "" : ` (${processor})`}, ${memoryGb} GB, ${system}; ${named.join(", ")}. Medians; servers and their load on the same machine.`;
}

function rowsOf(figures: readonly Measured[]): string[] {
  return [
    "| | measured | goal | |",
    "| --- | ---: | --- | --- |",
    ...figures.map((figure) => `| ${cellsOf(figure).join(" | ")} |`),
  ];
}

function cellsOf({ what, value, unit, goal }: Measured): string[] {
  if (goal === undefined) return [what, `${value} ${unit}`.trim(), "", ""];
  return [what, `${value} ${unit}`.trim(), goalText(goal), isMet(value, goal) ? "met" : "missed"];
}
