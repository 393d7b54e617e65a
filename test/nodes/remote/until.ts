/** Asks until there is an answer. */
export async function until<T>(check: () => T | undefined | false | Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value;
    await Bun.sleep(20);
  }
}
