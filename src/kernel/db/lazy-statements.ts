import { SQLiteDeleteBase, SQLiteInsertBase, SQLiteSelectBase, SQLiteUpdateBase } from "drizzle-orm/sqlite-core";

type Values = Record<string, unknown>;
/** What stores call on a prepared statement. */
type Statement = Record<"run" | "all" | "get" | "values", (values?: Values) => unknown>;
type Builder = { prepare(): Statement };

class LazyStatement implements Statement {
  #statement: Statement | undefined;

  constructor(private readonly prepare: () => Statement) {}

  run = (values?: Values) => this.#ready().run(values);
  all = (values?: Values) => this.#ready().all(values);
  get = (values?: Values) => this.#ready().get(values);
  values = (values?: Values) => this.#ready().values(values);

  #ready(): Statement {
    this.#statement ??= this.prepare();
    return this.#statement;
  }
}

/**
 * Stores prepare every statement when they are made, which is right for a server but took a fifth of its start. With
 * this, `prepare()` of the query builders waits until the statement is used for the first time. Their prototypes are
 * changed because the library offers no other place for it; a test tells when an upgrade changes what is relied upon.
 */
export function prepareOnFirstUse(): void {
  for (const { prototype } of [SQLiteSelectBase, SQLiteInsertBase, SQLiteUpdateBase, SQLiteDeleteBase]) {
    const builder = prototype as unknown as Builder & { [LAZY]?: true };
    if (builder[LAZY]) continue;
    const { prepare } = builder;
    builder[LAZY] = true;
    builder.prepare = function (this: Builder) {
      return new LazyStatement(() => prepare.call(this));
    };
  }
}

const LAZY = Symbol("prepares on first use");
