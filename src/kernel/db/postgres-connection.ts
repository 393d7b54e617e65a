import { SQL } from "bun";

/** No answer, or no connection: nothing is known about what was asked. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

type Values = (string | number | Uint8Array | null)[];

/**
 * One connection, made when it is needed and again after it broke. What is asked has an answer, an error of the database
 * or ConnectionLost within its time: a network that swallows packets would keep it waiting for ever otherwise.
 */
export class PostgresConnection {
  #sql: SQL | null = null;
  #closed = false;

  constructor(
    private readonly url: string,
    private readonly options: {
      /** Statements that prepare every new connection. */
      greeting?: string[];
      onLost?: () => void;
    } = {},
  ) {}

  async query<Row>(text: string, values: Values, timeoutMs: number): Promise<Row[]> {
    if (this.#closed) throw new ConnectionLost("closed");
    const sql = this.#sql ?? this.#open();
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new ConnectionLost(`no answer within ${timeoutMs} ms`)), timeoutMs);
    try {
      return (await Promise.race([this.#answer(sql, text, values), late])) as Row[];
    } catch (error) {
      if (isRefusal(error)) throw error;
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

  async #answer(sql: SQL, text: string, values: Values): Promise<unknown> {
    return await sql.unsafe(text, values);
  }

  #open(): SQL {
    const sql = new SQL(this.url, {
      max: 1,
      connectionTimeout: 5,
      onclose: () => this.#drop(sql),
    });
    this.#sql = sql;
    for (const statement of this.options.greeting ?? []) sql.unsafe(statement).catch(() => {});
    return sql;
  }

  #drop(sql: SQL): void {
    if (this.#sql !== sql) return;
    this.#sql = null;
    sql.close({ timeout: 0 }).catch(() => {});
    this.options.onLost?.();
  }
}

/** An answer of the database, as opposed to none: a class of errors that is about the connection itself counts as none. */
function isRefusal(error: unknown): boolean {
  const { code, errno } = error as { code?: string; errno?: string };
  if (code !== "ERR_POSTGRES_SERVER_ERROR" || typeof errno !== "string") return false;
  // 08: connection, 25: read-only (a replica), 40: rolled back, 53: no room, 55: starting, 57: shut down, 58: system.
  return !/^(08|25006|40|53|55|57|58)/.test(errno);
}

export function isTaken(error: unknown): boolean {
  return (error as { errno?: string }).errno === "23505";
}

/** The table, that is. */
export function isMissing(error: unknown): boolean {
  return (error as { errno?: string }).errno === "42P01";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
