import { readFileSync } from "node:fs";
import { Command } from "commander";
import type { FlightDump } from "../../protocol/media/flight.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

const HELP = `
DUMP is a file with the answer of GET /v1/connections/{id}/dumps/{dumpId}, or - for the standard input. It is run through
the packet path of this version: nothing is sent, and no call is needed.

  curl -sS -H "authorization: Bearer $STOA_API_KEY" $STOA/v1/connections/$id/dumps/$dump | stoa replay -`;

export function replayCommand(): Command {
  return new Command("replay")
    .description("replay a flight recorder dump through the packet path and explain each decision")
    .argument("<dump>", "a file, or - for the standard input")
    .option("--json", "print decisions, streams and estimates as JSON")
    .addHelpText("after", HELP)
    .action(async (path: string, { json = false }: { json?: boolean }) => {
      const dump = read(path);
      const { replayFlight } = await import("../../sfu/flight/replay.ts");
      const replayed = replayFlight(dump);
      if (json) {
        print(JSON.stringify(replayed, null, 2));
        return;
      }
      const { decisions, streams } = replayed;
      const { received, sent, rtcp } = dump;
      const began = new Date(dump.sinceMs).toISOString();
      print(`${(dump.lastedMs / 1_000).toFixed(1)} s from ${began}`);
      print(`${received.length} packets received, ${sent.length} sent, ${rtcp.length} reports`);
      for (const { name, packets, lost, askedFor, recovered, givenUp, jitterMs } of streams) {
        const repair = `asked again for ${askedFor}, ${recovered} came, ${givenUp} given up`;
        print(`  ${name}: ${packets} packets, ${lost} lost, ${repair}, jitter ${jitterMs} ms`);
      }
      for (const { atMs, about, decided, why } of decisions) {
        print(`${`+${Math.round(atMs)}`.padStart(8)} ms  ${about}: ${decided}\n             because ${why}`);
      }
      if (decisions.length === 0)
        print("No decisions: every expected packet arrived, and the bandwidth was sufficient.");
    });
}

function read(path: string): FlightDump {
  let text: string;
  try {
    text = readFileSync(path === "-" ? 0 : path, "utf8");
  } catch (error) {
    throw new CommandFailure(`${path} cannot be read: ${(error as Error).message}`);
  }
  try {
    const dump = JSON.parse(text) as FlightDump;
    if (dump.version === 1 && Array.isArray(dump.received) && Array.isArray(dump.rtcp)) return dump;
  } catch {
    // The error below explains the reason.
  }
  throw new CommandFailure(`${path} is not a dump of the flight recorder.`);
}
