import { Command, InvalidArgumentError, Option } from "commander";
import { isLoopback } from "../../kernel/net/addresses.ts";
import type { ChatReport } from "../../ops/load-test/chat-load.ts";
import type { Percentiles } from "../../ops/load-test/figures.ts";
import type { MediaReport } from "../../ops/load-test/media-load.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";
import { table } from "../table.ts";

type Options = {
  url: string;
  apiKey?: string;
  rooms: number;
  publishers: number;
  subscribers: number;
  chat?: boolean;
  conversations: number;
  senders: number;
  readers: number;
  rate: number;
  duration: number;
  json?: boolean;
  yesIOwnThisServer?: boolean;
};

const HELP = `
Media: --rooms, --publishers and --subscribers. With --chat: --conversations, --senders, --readers and --rate instead.
Rooms are closed at the end; conversations are archived, and their messages are deleted after a day.`;

export function loadTestCommand(): Command {
  return new Command("load-test")
    .description("measure how much load a server can handle, in rooms or conversations")
    .option("--url <url>", "the server", "http://127.0.0.1:7000")
    .addOption(new Option("--api-key <key>", "an API key of a project there").env("STOA_API_KEY"))
    .option("--rooms <n>", "rooms", between(1, 1_000), 1)
    .option("--publishers <n>", "per room, each sending 0.5 Mbit/s of video", between(1, 50), 1)
    .option("--subscribers <n>", "per room, each subscribed to all publishers", between(0, 10_000), 5)
    .option("--chat", "test chat instead of media")
    .option("--conversations <n>", "conversations", between(1, 1_000), 1)
    .option("--senders <n>", "per conversation", between(1, 100), 1)
    .option("--readers <n>", "per conversation, each receiving every message", between(0, 900), 5)
    .option("--rate <n>", "messages per second and sender", between(1, 1_000), 1)
    .option("--duration <seconds>", "seconds to measure", between(1, 3_600), 10)
    .option("--json", "print the result as one JSON object")
    .option("--yes-i-own-this-server", "required for a server on another machine")
    .addHelpText("after", HELP)
    .action(async (options: Options) => {
      const { url, apiKey, duration: durationSeconds } = options;
      if (apiKey === undefined) throw new CommandFailure("give an API key: --api-key, or STOA_API_KEY", true);
      if (!URL.canParse(url)) throw new CommandFailure(`${url} is not a URL`, true);
      const { hostname, origin } = new URL(url);
      if (!isLoopback(hostname) && !options.yesIOwnThisServer) {
        throw new CommandFailure(
          `${hostname} is not this machine. Say --yes-i-own-this-server if you may load it.`,
          true,
        );
      }
      const target = { url: origin, apiKey, durationSeconds };
      const run = options.chat ? loadChat : loadMedia;
      const { report, text } = await run({ ...options, ...target }).catch((error: Error) => {
        throw new CommandFailure(error.message.includes(origin) ? error.message : `${origin}: ${error.message}`);
      });
      if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
      print(options.json ? JSON.stringify(report) : text);
      process.exit(report.joined === 0 ? 1 : 0);
    });
}

type Target = Options & { apiKey: string; durationSeconds: number };

async function loadMedia({ url, apiKey, durationSeconds, rooms, publishers, subscribers }: Target) {
  const { runMediaLoad } = await import("../../ops/load-test/media-load.ts");
  const load = { url, apiKey, durationSeconds, rooms, publishers, subscribers };
  const report = await runMediaLoad(load, showProgress);
  return { report, text: mediaTable(report) };
}

async function loadChat({ url, apiKey, durationSeconds, conversations, senders, readers, rate }: Target) {
  const { runChatLoad } = await import("../../ops/load-test/chat-load.ts");
  const load = { url, apiKey, durationSeconds, conversations, senders, readers, rate };
  const report = await runChatLoad(load, showProgress);
  return { report, text: chatTable(report) };
}

/** Writes to standard error, on a terminal as one line that is updated, so that standard output has only the result. */
function showProgress(line: string): void {
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`);
}

function between(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isInteger(value) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`an integer from ${min} to ${max} is expected`);
  };
}

function mediaTable(report: MediaReport): string {
  const { wanted, joined, refused, delayMs, lossPercent, receivedBps } = report;
  const cells = [
    `${joined} of ${wanted}`,
    String(report.packetsSent),
    `${report.packetsReceived} of ${report.packetsExpected}`,
    lossPercent === null ? "-" : `${lossPercent.toFixed(2)} %`,
    milliseconds(delayMs),
    `${(receivedBps / 1_000_000).toFixed(2)} Mbit/s`,
  ];
  return [
    table(["JOINED", "SENT", "RECEIVED", "LOSS", "DELAY MS p50/p95/p99", "BITRATE"], [cells]),
    ...causes(refused, "not joined"),
    ...advice([refused], "SIGNALING_MAX_CONNECTIONS_PER_WINDOW and RATE_LIMIT_RTC_TOKENS"),
  ].join("\n");
}

function chatTable(report: ChatReport): string {
  const { wanted, joined, refused, sends, acks, notAcknowledged, ackMs, deliveryMs, lost, outOfOrder } = report;
  const cells = [
    `${joined} of ${wanted}`,
    String(sends),
    String(acks),
    milliseconds(ackMs),
    `${report.deliveries} of ${report.deliveriesExpected}`,
    milliseconds(deliveryMs),
    String(lost),
    String(outOfOrder),
  ];
  const header = [
    "JOINED",
    "SENDS",
    "ACKS",
    "ACK MS p50/p95/p99",
    "DELIVERIES",
    "MS p50/p95/p99",
    "LOST",
    "OUT OF ORDER",
  ];
  return [
    table(header, [cells]),
    ...causes(refused, "not joined"),
    ...causes(notAcknowledged, "not acknowledged"),
    ...advice([refused, notAcknowledged], "CHAT_CONNECTION_RATE_LIMIT and CHAT_SEND_RATE_LIMIT"),
  ].join("\n");
}

function milliseconds({ p50, p95, p99 }: Percentiles): string {
  return [p50, p95, p99].map((value) => (value === null ? "-" : value.toFixed(1))).join(" / ");
}

function causes(counts: Record<string, number>, what: string): string[] {
  return Object.entries(counts).map(([cause, count]) => `${count} ${what}: ${cause}`);
}

function advice(tallies: Record<string, number>[], limits: string): string[] {
  const limited = tallies.some((counts) => Object.keys(counts).some((cause) => /RATE_LIMITED|4429/.test(cause)));
  return limited ? [`For a test, raise ${limits} of the server.`] : [];
}
