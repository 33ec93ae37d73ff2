export class ReplayView {}
