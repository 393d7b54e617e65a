/** Writes as fast as it can through the group commit and says which writes were acknowledged; usually killed from outside. */
import { writeSync } from "node:fs";
import { type Durability, openDatabase } from "../../../src/kernel/db/open.ts";
import { createWriter } from "../../../src/kernel/db/writer.ts";

const [path = "", durability = "FULL", first = "0", count = "Infinity"] = process.argv.slice(2);
const db = openDatabase(path, { durability: durability as Durability });
db.$client.run("CREATE TABLE IF NOT EXISTS notes (n INTEGER PRIMARY KEY) STRICT");
const insert = db.$client.prepare("INSERT INTO notes VALUES (?)");
const { write } = createWriter(db.$client, (error) => {
  throw error;
});
writeSync(1, "ready\n");

const CONCURRENT = 1000;
let next = Number(first);
const end = next + Number(count);
async function writer(): Promise<void> {
  while (next < end) {
    const n = next++;
    try {
      await write(() => void insert.run(n));
      writeSync(1, `${n}\n`);
    } catch {
      writeSync(1, "refused\n");
      return;
    }
  }
}
await Promise.all(Array.from({ length: CONCURRENT }, writer));
