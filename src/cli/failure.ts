/** Something the person at the terminal can mend: shown as one sentence, without a stack. */
export class CommandFailure extends Error {
  constructor(
    message: string,
    readonly wrongUsage = false,
  ) {
    super(message);
    this.name = "CommandFailure";
  }
}
