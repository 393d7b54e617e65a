import { openDatabase } from "../../kernel/db/open.ts";

/** After each table the check pauses for this multiple of its duration, so that it uses at most a fifth of a core. */
const REST_FACTOR = 4;

/**
 * Reads all pages of the database, table by table, and returns the first damage. Writers are not delayed by a reader.
 */
export async function checkDatabase(
  path: string,
  rest: (ms: number) => Promise<void> = Bun.sleep,
): Promise<string | null> {
  const { $client: client } = openDatabase(path, { readonly: true });
  try {
    const tables = client
      .query<{ name: string }, []>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'",
      )
      .all();
    for (const { name } of tables) {
      const startedAt = performance.now();
      const found = client.query<{ quick_check: string }, []>(`PRAGMA quick_check(${quoted(name)})`).get()?.quick_check;
      if (found !== "ok") return `${name}: ${found ?? "no result"}`;
      await rest((performance.now() - startedAt) * REST_FACTOR);
    }
    return null;
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code?.startsWith("SQLITE_CORRUPT") || code === "SQLITE_NOTADB" || code?.startsWith("SQLITE_IOERR")) return code;
    throw new Error(message, { cause: error });
  } finally {
    client.close();
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
