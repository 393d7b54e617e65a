import { printableLines } from "../kernel/printable.ts";

// Commands show names that tenants chose: printed without escaping, they could control the operator's terminal.

export function print(text: string): void {
  console.log(printableLines(text));
}

export function printError(text: string): void {
  console.error(printableLines(text));
}
