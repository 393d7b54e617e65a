import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ChatChild } from "./chat-child.ts";
import { ChatClient } from "./client.ts";
import type { Body } from "./world.ts";

type CrashReport = {
  rounds: number;
  acknowledged: number;
  retried: number;
  lost: number;
  duplicates: number;
  gaps: number;
  /** Acknowledged with another number or text than is on disk. */
  changed: number;
};

const SENDERS = ["s0", "s1", "s2", "s3"];
const IN_FLIGHT = 8;

/** Senders at full speed, `kill -9` at random, restart, retry: counts what was lost, doubled or skipped. */
export async function crashRounds(
  rounds: number,
  random: () => number,
  disturb: (child: ChatChild) => Promise<void> = async () => {},
): Promise<CrashReport> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-crash-"));
  const acknowledged = new Map<string, { seq: number; text: string }>();
  const report: CrashReport = { rounds, acknowledged: 0, retried: 0, lost: 0, duplicates: 0, gaps: 0, changed: 0 };
  let unanswered: string[] = [];
  let key = "";
  let next = 0;

  function send(client: ChatClient, id: string): void {
    client.send({ type: "message.send", id, room: "crash", text: `text of ${id}`, clientMessageId: id });
  }

  for (let round = 0; round <= rounds; round += 1) {
    const child = await ChatChild.start(dataDir, key);
    key = child.key;
    if (round === 0) {
      const members = SENDERS.map((userId) => ({ userId }));
      await child.call("POST", "/v1/chat/conversations", { name: "crash", members });
    }
    const clients = await Promise.all(SENDERS.map(async (user) => ChatClient.open(child.url, await child.token(user))));
    for (const client of clients) await client.ask("room.join", { room: "crash" });

    const sent = new Set<string>();
    const answered = new Set<string>();
    const take = (client: ChatClient, id: string) => {
      sent.add(id);
      send(client, id);
    };
    // Ids name their sender: a retry is the same message only from the same one.
    for (const id of unanswered) {
      report.retried += 1;
      const client = clients[Number(id.split("-")[0])];
      if (client) take(client, id);
    }
    const last = round === rounds;
    const pump = clients.map((client, index) => {
      let read = 0;
      return () => {
        for (; read < client.frames.length; read += 1) {
          const { type, id, message } = client.frames[read] as Body;
          if (type !== "ack" || !message) continue;
          answered.add(id);
          acknowledged.set(id, { seq: message.seq, text: message.text });
          if (!last) take(client, `${index}-${next++}`);
        }
      };
    });
    if (!last)
      for (const [index, client] of clients.entries())
        for (let i = 0; i < IN_FLIGHT; i += 1) take(client, `${index}-${next++}`);
    const pumpAll = () => pump.forEach((one) => void one());
    const disturbed = last ? Promise.resolve() : disturb(child);
    const killAt = performance.now() + 30 + random() * 250;
    while (last ? answered.size < sent.size : performance.now() < killAt) {
      pumpAll();
      await Bun.sleep(0);
    }
    if (last) {
      await check(child, acknowledged, report);
      for (const client of clients) await client.close();
      await child.kill();
      break;
    }
    await child.kill();
    await disturbed;
    await Promise.all(clients.map((client) => client.closed()));
    // Messages that arrived before the end were acknowledged.
    pumpAll();
    unanswered = [...sent].filter((id) => !acknowledged.has(id));
  }
  report.acknowledged = acknowledged.size;
  rmSync(dataDir, { recursive: true, force: true });
  return report;
}

async function check(child: ChatChild, acknowledged: Map<string, { seq: number; text: string }>, report: CrashReport) {
  const stored = new Map<string, Body>();
  let before = "";
  for (;;) {
    const page = await child.call("GET", `/v1/chat/conversations/crash/messages?limit=100${before}`);
    for (const message of page.data) {
      if (stored.has(message.clientMessageId)) report.duplicates += 1;
      stored.set(message.clientMessageId, message);
    }
    if (!page.hasMore) break;
    before = `&before=${page.nextCursor}`;
  }
  for (const [id, { seq, text }] of acknowledged) {
    const message = stored.get(id);
    if (!message) report.lost += 1;
    else if (message.seq !== seq || message.text !== text) report.changed += 1;
  }
  let expected = 1;
  for (let after = "0"; after !== ""; ) {
    const page = await child.call("GET", `/v1/chat/conversations/crash/events?limit=200&after=${after}`);
    for (const { seq } of page.data) {
      if (seq !== expected) report.gaps += 1;
      expected = seq + 1;
    }
    after = page.nextCursor ?? "";
  }
}
