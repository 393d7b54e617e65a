import { eq, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import { reading, run } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { type UserRow, users } from "./user.table.ts";

export function userStore(db: Db) {
  const byId = reading(() =>
    db
      .select()
      .from(users)
      .where(eq(users.id, sql.placeholder("id")))
      .prepare(),
  );
  const byEmail = reading(() =>
    db
      .select()
      .from(users)
      .where(eq(users.email, sql.placeholder("email")))
      .prepare(),
  );
  const operator = reading(() =>
    db.select().from(users).where(eq(users.isOperator, true)).orderBy(users.id).limit(1).prepare(),
  );
  const any = reading(() => db.select({ id: users.id }).from(users).limit(1).prepare());

  return {
    find: (id: string): UserRow | undefined => byId.get({ id }),
    /** `email` in its normal form. */
    findByEmail: (email: string): UserRow | undefined => byEmail.get({ email }),
    findOperator: (): UserRow | undefined => operator.get(),
    isEmpty: (): boolean => any.get() === undefined,
    insert: (unit: Unit, row: UserRow) => void run(unit, db.insert(users).values(row)),
    update: (unit: Unit, id: string, change: Partial<Omit<UserRow, "id">>) =>
      void run(unit, db.update(users).set(change).where(eq(users.id, id))),
  };
}
