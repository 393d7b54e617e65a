/** The methods of a page that page-api.ts needs, so that it works with both browsers. */
export type Scripted = {
  evaluate<Result, Argument>(
    run: (argument: Argument) => Result | Promise<Result>,
    argument: Argument,
  ): Promise<Result>;
  waitForFunction<Argument>(
    holds: (argument: Argument) => unknown,
    argument: Argument,
    options?: { timeout?: number; polling?: number },
  ): Promise<unknown>;
};
