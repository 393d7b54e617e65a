import { SQL } from "bun";

/** A program with write access to the commit log's Postgres, and without STOA_SECRET. */
export class HostilePostgres {
  readonly #sql: SQL;

  constructor(url: string) {
    this.#sql = new SQL(url, { max: 1 });
  }

  async run<Row>(text: string, values: (string | number | Uint8Array | null)[] = []): Promise<Row[]> {
    return (await this.#sql.unsafe(text, values)) as Row[];
  }

  async head(): Promise<number> {
    const [row] = await this.run<{ head: string }>("SELECT max(position) AS head FROM stoa_log");
    return Number(row?.head ?? 0);
  }

  async recordAt(position: number): Promise<Uint8Array> {
    const [row] = await this.run<{ record: Uint8Array }>("SELECT record FROM stoa_log WHERE position = $1", [position]);
    if (row === undefined) throw new Error(`the log has no record ${position}`);
    return row.record;
  }

  async insertRecord(position: number, bytes: Uint8Array): Promise<void> {
    const insert = "INSERT INTO stoa_log (position, tag, record) VALUES ($1, 'forged', $2)";
    await this.run(insert, [position, bytes]);
  }

  async replaceRecord(position: number, bytes: Uint8Array): Promise<void> {
    await this.run("UPDATE stoa_log SET record = $2 WHERE position = $1", [position, bytes]);
  }

  async removeRecords(from: number): Promise<void> {
    await this.run("DELETE FROM stoa_log WHERE position >= $1", [from]);
  }

  async close(): Promise<void> {
    await this.#sql.close({ timeout: 0 });
  }
}

/** A server of the attacker, which keeps every request that it gets. */
export function attackerServer(answer: (request: Request) => Response | Promise<Response> = () => new Response("no")) {
  const requests: { path: string; headers: Record<string, string> }[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const { pathname, search } = new URL(request.url);
      requests.push({ path: `${pathname}${search}`, headers: Object.fromEntries(request.headers) });
      return answer(request);
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, requests, close: () => server.stop(true) };
}
