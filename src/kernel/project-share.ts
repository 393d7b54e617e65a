/** The share of a server's places that one project can take unless the operator sets a number. */
const DEFAULT_SHARE = 3 / 4;

type Limits = {
  ofServer: number;
  /** 0 stands for three quarters of the server's. */
  ofProject: number;
  /** What is counted, in the plural: the subject of both sentences. */
  what: string;
};

/** Why a project can start no other one, so that one project does not use up what all share; null while it can. */
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
