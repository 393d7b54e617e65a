import { SQL } from "bun";
import { messageOf } from "../error-message.ts";

/** No response or no connection: it is unknown whether the query ran. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

type Values = (string | number | Uint8Array | null)[];

/**
 * One connection, opened when needed and again after it was lost. Every query ends with its rows, an error of the
 * database or ConnectionLost within its timeout; a network that drops packets would otherwise keep it waiting forever.
 */
export class PostgresConnection {
  #sql: SQL | null = null;
  #closed = false;

  constructor(
    private readonly url: string,
    private readonly options: {
      /** Statements that run first on every new connection. */
      setup?: string[];
      onLost?: () => void;
    } = {},
  ) {}

  async query<Row>(text: string, values: Values, timeoutMs: number): Promise<Row[]> {
    if (this.#closed) throw new ConnectionLost("closed");
    const sql = this.#sql ?? this.#open();
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new ConnectionLost(`no answer within ${timeoutMs} ms`)), timeoutMs);
    try {
      return (await Promise.race([this.#run(sql, text, values), late])) as Row[];
    } catch (error) {
      if (isDatabaseError(error)) throw error;
      this.#drop(sql);
      throw error instanceof ConnectionLost ? error : new ConnectionLost(messageOf(error));
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#sql !== null) this.#drop(this.#sql);
  }

  async #run(sql: SQL, text: string, values: Values): Promise<unknown> {
    return await sql.unsafe(text, values);
  }

  #open(): SQL {
    const sql = new SQL(this.url, {
      max: 1,
      connectionTimeout: 5,
      onclose: () => this.#drop(sql),
    });
    this.#sql = sql;
    for (const statement of this.options.setup ?? []) sql.unsafe(statement).catch(() => {});
    return sql;
  }

  #drop(sql: SQL): void {
    if (this.#sql !== sql) return;
    this.#sql = null;
    sql.close({ timeout: 0 }).catch(() => {});
    this.options.onLost?.();
  }
}

/** Whether the error comes from the database itself; errors of the connection or of the server's state do not count. */
function isDatabaseError(error: unknown): boolean {
  const { code, errno } = error as { code?: string; errno?: string };
  if (code !== "ERR_POSTGRES_SERVER_ERROR" || typeof errno !== "string") return false;
  // 08: connection, 25006: read-only (a replica), 40: rolled back, 53: no resources, 55: starting, 57: shutdown, 58: system.
  return !/^(08|25006|40|53|55|57|58)/.test(errno);
}

export function isUniqueViolation(error: unknown): boolean {
  return (error as { errno?: string }).errno === "23505";
}

export function isUndefinedTable(error: unknown): boolean {
  return (error as { errno?: string }).errno === "42P01";
}
