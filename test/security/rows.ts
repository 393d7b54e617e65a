import type { TestServer } from "../harness/server.ts";

/** Every row of every table as text, to see that a refused request left nothing behind. */
export function rowsOf({ runtime }: TestServer): string[] {
  const db = runtime.db.$client;
  const tables = db
    .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    .all();
  return tables
    .filter(({ name }) => !name.startsWith("sqlite_"))
    .flatMap(({ name }) =>
      db
        .query(`SELECT * FROM "${name}"`)
        .values()
        .map((row) => `${name} ${textOf(row)}`),
    );
}

const textOf = (row: unknown[]) =>
  JSON.stringify(row, (_, value) => (value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value));
