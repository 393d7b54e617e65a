/** The share of a server's capacity that one project can take, unless the operator sets a number. */
const DEFAULT_SHARE = 3 / 4;

type Limits = {
  ofServer: number;
  /** The limit of a project; 0 stands for three quarters of the server's limit. */
  ofProject: number;
  /** What is counted, as a plural noun: the subject of both messages. */
  what: string;
};

/** Returns why the project cannot start another one, or null if it can. One project must not use up what all projects share. */
export function shareProblem(
  projectId: string,
  running: Iterable<{ projectId: string }>,
  { ofServer, ofProject, what }: Limits,
): string | null {
  const all = [...running];
  if (all.length >= ofServer) return `At most ${ofServer} ${what} run at a time.`;
  const share = ofProject === 0 ? Math.ceil(ofServer * DEFAULT_SHARE) : ofProject;
  const taken = all.filter((one) => one.projectId === projectId).length;
  return taken >= share ? `At most ${share} ${what} of a project run at a time.` : null;
}
