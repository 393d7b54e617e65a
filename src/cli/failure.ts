/** An error that the command-line user can correct. It is printed as one line, without a stack trace. */
export class CommandFailure extends Error {
  constructor(
    message: string,
    readonly wrongUsage = false,
  ) {
    super(message);
    this.name = "CommandFailure";
  }
}
