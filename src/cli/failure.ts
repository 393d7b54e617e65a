/** A failure that the user of the terminal can correct. It is printed as one sentence, without a stack. */
export class CommandFailure extends Error {
  constructor(
    message: string,
    readonly wrongUsage = false,
  ) {
    super(message);
    this.name = "CommandFailure";
  }
}
