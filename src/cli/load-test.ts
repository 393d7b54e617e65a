import { Command, InvalidArgumentError, Option } from "commander";
import ipaddr from "ipaddr.js";
import type { MediaReport } from "../load-test/media-load.ts";
import { CommandFailure } from "./failure.ts";
import { table } from "./table.ts";

type Options = {
  url: string;
  apiKey?: string;
  rooms: number;
  publishers: number;
  subscribers: number;
  duration: number;
  json?: boolean;
  yesIOwnThisServer?: boolean;
};

export function loadTestCommand(): Command {
  return new Command("load-test")
    .description("fill rooms with publishers and subscribers, to see what a server carries")
    .option("--url <url>", "the server", "http://127.0.0.1:7000")
    .addOption(new Option("--api-key <key>", "an API key of a project there").env("STOA_API_KEY"))
    .option("--rooms <n>", "rooms", between(1, 1_000), 1)
    .option("--publishers <n>", "in each room, each with half a megabit of video a second", between(1, 50), 1)
    .option("--subscribers <n>", "in each room, each watching every publisher of it", between(0, 10_000), 5)
    .option("--duration <seconds>", "how long is measured", between(1, 3_600), 10)
    .option("--json", "print the result as one JSON object")
    .option("--yes-i-own-this-server", "needed for a server that is not on this machine")
    .action(async (options: Options) => {
      const { url, apiKey, rooms, publishers, subscribers, duration, json } = options;
      if (apiKey === undefined) throw new CommandFailure("give an API key: --api-key, or STOA_API_KEY", true);
      if (!URL.canParse(url)) throw new CommandFailure(`${url} is no address`, true);
      const { hostname, origin } = new URL(url);
      if (!isLoopback(hostname) && !options.yesIOwnThisServer) {
        throw new CommandFailure(
          `${hostname} is not this machine. Say --yes-i-own-this-server if you may load it.`,
          true,
        );
      }
      const { runMediaLoad } = await import("../load-test/media-load.ts");
      const load = { url: origin, apiKey, rooms, publishers, subscribers, durationSeconds: duration };
      const report = await runMediaLoad(load, showProgress).catch((error: Error) => {
        throw new CommandFailure(`${origin}: ${error.message}`);
      });
      if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
      console.log(json ? JSON.stringify(report) : shown(report));
      process.exit(report.joined === 0 ? 1 : 0);
    });
}

/** One line that changes on a terminal, plain lines elsewhere; never in the way of the result. */
function showProgress(line: string): void {
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`);
}

function shown(report: MediaReport): string {
  const { wanted, joined, refused, delayMs, lossPercent, receivedBps } = report;
  const ms = (value: number | null) => (value === null ? "-" : value.toFixed(1));
  const cells = [
    `${joined} of ${wanted}`,
    String(report.packetsSent),
    `${report.packetsReceived} of ${report.packetsExpected}`,
    lossPercent === null ? "-" : `${lossPercent.toFixed(2)} %`,
    `${ms(delayMs.p50)} / ${ms(delayMs.p95)} / ${ms(delayMs.p99)}`,
    `${(receivedBps / 1_000_000).toFixed(2)} Mbit/s`,
  ];
  const lines = [table(["JOINED", "SENT", "RECEIVED", "LOSS", "DELAY MS p50/p95/p99", "BITRATE"], [cells])];
  for (const [why, count] of Object.entries(refused)) lines.push(`${count} not joined: ${why}`);
  if (refused.RATE_LIMITED !== undefined || refused.SVC_RATE_LIMITED !== undefined) {
    lines.push("For a test, raise SIGNALING_MAX_CONNECTIONS_PER_WINDOW and RATE_LIMIT_RTC_TOKENS of the server.");
  }
  return lines.join("\n");
}

function between(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isInteger(value) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`an integer from ${min} to ${max} is expected`);
  };
}

function isLoopback(host: string): boolean {
  const bare = host.replaceAll(/[[\]]/g, "");
  return bare === "localhost" || (ipaddr.isValid(bare) && ipaddr.process(bare).range() === "loopback");
}
